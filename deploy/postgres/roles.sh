#!/bin/sh
# Two databases and their owners, neither a superuser: row-level security walls tenants off from each other, and a
# superuser walks through it. Run once by the image, on an empty data directory.
set -eu
owner() {
  psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres \
    --set=name="$1" --set=password="$(cat "/run/secrets/$2")" <<'SQL'
CREATE ROLE :"name" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}
owner shomei shomei_password
owner shomei_custody custody_password
