# OpenBao for one machine: keys on disk under its seal, and a listener that only the machine itself reaches.
storage "raft" {
  path    = "/openbao/file"
  node_id = "one"
}

listener "tcp" {
  address     = "127.0.0.1:8200"
  tls_disable = true
}

api_addr     = "http://127.0.0.1:8200"
cluster_addr = "https://127.0.0.1:8201"
ui           = false
