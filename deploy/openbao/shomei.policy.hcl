# What the service may do: make, use and destroy its own epoch keys, and nothing else.
# No export, no backup, no list; encrypting has no "create", so that no key comes to be by a wrong name.
path "transit/keys/shomei-*" {
  capabilities = ["create", "read", "update", "delete"]
}

path "transit/encrypt/shomei-*" {
  capabilities = ["update"]
}

path "transit/decrypt/shomei-*" {
  capabilities = ["update"]
}
