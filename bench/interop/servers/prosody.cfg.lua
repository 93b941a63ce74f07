admins = {}
modules_enabled = { "saslauth", "disco", "tls" }
modules_disabled = { "s2s" }
ssl = { certificate = "@CHAIN@", key = "@KEY@" }
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
c2s_ports = { @PORT@ }
c2s_interfaces = { "127.0.0.1" }
s2s_ports = {}
authentication = "internal_plain"
data_path = "@FOLDER@"
pidfile = "@FOLDER@/pid"
log = { info = "@FOLDER@/prosody.log" }
run_as_root = true
VirtualHost "localhost"
