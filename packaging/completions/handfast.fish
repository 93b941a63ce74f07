# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_handfast_global_optspecs
    string join \n h/help V/version
end

function __fish_handfast_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_handfast_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_handfast_using_subcommand
    set -l cmd (__fish_handfast_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c handfast -n "__fish_handfast_needs_command" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_needs_command" -s V -l version -d 'Print version'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "proxy" -d 'Serve TLS in front of any TCP service'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "check" -d 'Check a configuration: report all mistakes, and explain its effect'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "log" -d 'Read the access log: failures with their reasons, slow connections, counts and percentiles'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "import" -d 'Convert a stunnel, hitch, ghostunnel, nginx, HAProxy or Caddy configuration'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "top" -d 'Show a running proxy live in the terminal'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "acme" -d 'List, renew and revoke the certificates that a proxy orders (ACME)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "fleet" -d 'List the machines of a fleet that share ticket keys and certificates, or set up a new one'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "cache" -d 'List and purge objects in the caches of a running proxy, and show what became of requests'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reload" -d 'Reload the configuration and certificates of a running proxy, and report the result'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reopen" -d 'Reopen the access log of a running proxy, after a rotation'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "drain" -d 'Drain a running proxy, and return at once: it accepts no more connections, and ends after the last one or process.drain'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "stop" -d 'Stop a running proxy: drain it, and wait until it has ended'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "upgrade" -d 'Replace a running proxy by a new process, without losing connections'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "load" -d 'Put load on a TLS server, and judge whether the figures are reliable'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "worker" -d 'Generate load for a `handfast load --workers` on another machine'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "compare" -d 'Show two runs side by side, or test whether two groups of runs differ by more than chance'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "probe" -d 'Show where the time of a TLS connection goes, and how to shorten it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "explain" -d 'Explain a topic that `handfast probe` names'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "proxy-header" -d 'Explain a PROXY header, or report exactly what is wrong with it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "speed" -d 'Measure the TLS speed of this CPU, and predict handshakes and bytes from it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "doctor" -d 'List what limits or endangers TLS service on this machine, worst first, with the commands to change it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "lab" -d 'Run a command on an emulated network: with a delay, with losses, at a rate'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "weak-keys" -d 'Prepare lists of compromised keys for the proxy (`[process] weak-keys`)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "key-process" -d 'Hold private keys for a proxy, which starts this itself (`process.private-keys`)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "start-programs" -d 'Start programs for a proxy, which starts this itself (`program` of a backend)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reference" -d 'Print the reference of the configuration file, or of a command, as Markdown'
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -s c -l config -d 'Configuration file' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l listen -d 'Address to listen on: 0.0.0.0:8443, [::1]:8443, *:8443, unix:/run/x.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l backend -d 'Backend: 127.0.0.1:8080, app.example.org:8080, unix:/run/app.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l certificate -d 'Certificate chain in PEM, with or without its key, or a folder of them (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l key -d 'Key in PEM, when it is not in the certificate\'s file' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l admin -d 'Address of metrics and status: 127.0.0.1:7643 by default, unix:/run/x.sock, off' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l access-log -d 'Destination of the access log: stdout, off, or a file' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l stunnel -d 'A stunnel configuration, which is converted at each start and reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l hitch -d 'A hitch configuration, which is converted at each start and reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l ca-file -d 'File for the certificate of the throwaway CA (only without -c and flags)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l take-over -d 'Take over from the running process at this socket (`process.upgrade-socket`); `handfast upgrade` does this' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand check" -s c -l config -d 'Configuration file' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand check" -l listen -d 'Address to listen on: 0.0.0.0:8443, [::1]:8443, *:8443, unix:/run/x.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l backend -d 'Backend: 127.0.0.1:8080, app.example.org:8080, unix:/run/app.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l certificate -d 'Certificate chain in PEM, with or without its key, or a folder of them (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l key -d 'Key in PEM, when it is not in the certificate\'s file' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l admin -d 'Address of metrics and status: 127.0.0.1:7643 by default, unix:/run/x.sock, off' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l access-log -d 'Destination of the access log: stdout, off, or a file' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l stunnel -d 'A stunnel configuration, which is converted at each start and reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand check" -l hitch -d 'A hitch configuration, which is converted at each start and reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand check" -l explain -d 'Explain in sentences what it listens on, which certificate serves which names, and where connections go; with HOST, how it serves a client that requests this name (SNI): by which rule, with which certificate, to which backends; with a URL, such as https://www.example.org/path, also which route its request takes, and which fields backends receive' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l ready -d 'Check instead whether the proxy that runs with this configuration is ready for clients: request /ready at its admin address. Exit code 0 if it is ready, 1 if it is not or does not answer'
complete -c handfast -n "__fish_handfast_using_subcommand check" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s c -l config -d 'The proxy\'s configuration, which names the access log (`access-log.to`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand log" -l since -d 'Only what ended at this time or later' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l until -d 'Only what ended before this time' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l cause -d 'Only what ended for this cause, such as `reset`; docs/diagnose/causes.md lists them (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l client -d 'Only clients of this address or network: 192.0.2.7, 2001:db8::/32 (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l service -d 'Only what this service served (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l slow -d 'Only connections with a handshake and a connect to the backend that took this long together, or longer, and requests that did' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l backend -d 'Only what this backend served, by its name in the log (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l status -d 'Only HTTP requests with this status: 404, 5xx, or none (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l path -d 'Only HTTP requests with a path that begins with this' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l host -d 'Only HTTP requests for this host, whatever the port (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l failures -d 'Only connections that failed, and requests that no backend answered completely'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s f -l follow -d 'Continue at the end of the file, until stopped; without --since start there. It follows a rotation'
complete -c handfast -n "__fish_handfast_using_subcommand log" -l summary -d 'Counts by cause, side, step and service, and percentiles of times, instead of lines'
complete -c handfast -n "__fish_handfast_using_subcommand log" -l json -d 'Print the lines as they are in the file, for jq and other programs'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "stunnel" -d 'stunnel.conf'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "hitch" -d 'hitch.conf'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "nginx" -d 'nginx.conf'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "haproxy" -d 'haproxy.cfg'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "caddy" -d 'Caddy\'s JSON, as `caddy adapt` prints it'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch nginx haproxy caddy ghostunnel" -f -a "ghostunnel" -d 'ghostunnel\'s command line, behind `--`'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from nginx" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from nginx" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from nginx" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from haproxy" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from haproxy" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from haproxy" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from caddy" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from caddy" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from caddy" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -s o -l output -d 'The file to write; an existing one is not overwritten [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -l strict -d 'If anything changes its meaning, exit with 1 and write nothing'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand top" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand top" -l interval -d 'Seconds from one picture to the next, 1 to 60' -r
complete -c handfast -n "__fish_handfast_using_subcommand top" -l once -d 'Print everything once, as plain text, and end; needs no terminal'
complete -c handfast -n "__fish_handfast_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and not __fish_seen_subcommand_from list import renew revoke" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and not __fish_seen_subcommand_from list import renew revoke" -f -a "list" -d 'List the certificates that are ordered: days left, next try, last error, and the DNS records to set'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and not __fish_seen_subcommand_from list import renew revoke" -f -a "import" -d 'Take over certificates and accounts that certbot, lego, acme.sh or Caddy have left behind'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and not __fish_seen_subcommand_from list import renew revoke" -f -a "renew" -d 'Order a new certificate for a name now, within the limits on orders'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and not __fish_seen_subcommand_from list import renew revoke" -f -a "revoke" -d 'Revoke the certificate of a name, and order a new one'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from list" -s c -l config -d 'The proxy\'s configuration' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from import" -s c -l config -d 'The proxy\'s configuration' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from renew" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from renew" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from revoke" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand acme; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and not __fish_seen_subcommand_from list setup" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and not __fish_seen_subcommand_from list setup" -f -a "list" -d 'List the machines that a proxy receives messages from, and whether its sessions resume on them'
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and not __fish_seen_subcommand_from list setup" -f -a "setup" -d 'Write a NATS server\'s configuration, a separate CA, a password, and the secret of a fleet'
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from list" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from setup" -l host -d 'Name or address under which machines will reach the NATS server' -r
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from setup" -l port -d 'Port on which the NATS server will listen [default: 4222]' -r
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from setup" -l fleet -d 'Fleet whose subjects its users may use; all its machines must name the same [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand fleet; and __fish_seen_subcommand_from setup" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and not __fish_seen_subcommand_from stats list purge" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and not __fish_seen_subcommand_from stats list purge" -f -a "stats" -d 'What the caches of a proxy have, and what became of requests'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and not __fish_seen_subcommand_from stats list purge" -f -a "list" -d 'List objects: status, bytes, age and seconds until it is stale, hits, URL'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and not __fish_seen_subcommand_from stats list purge" -f -a "purge" -d 'Remove objects by URL, by the beginning of URLs, or by tag (Cache-Tag)'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from stats" -l at -d 'Admin address of the proxy, instead of the one in its configuration: http://HOST:PORT, HOST:PORT, unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from stats" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -l prefix -d 'Only those whose URL begins so' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -l limit -d 'Most objects' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -l service -d 'Only of the cache of this service' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -l at -d 'Admin address of the proxy, instead of the one in its configuration: http://HOST:PORT, HOST:PORT, unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -l prefix -d 'All objects whose URL begins so' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -l tag -d 'All objects with this tag' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -l service -d 'Only of the cache of this service' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -l at -d 'Admin address of the proxy, instead of the one in its configuration: http://HOST:PORT, HOST:PORT, unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand cache; and __fish_seen_subcommand_from purge" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand reload" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand reopen" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand reopen" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand drain" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand drain" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand stop" -s c -l config -d 'The proxy\'s configuration, which has its admin address (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand stop" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -s c -l config -d 'The running process\'s configuration, which names its socket (`process.upgrade-socket`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -l socket -d 'Its socket, instead of the one in the configuration' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -l program -d 'Program to start; by default that of the running process, as it is on disk now. If this command starts it, the file must be writable by root only' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l also -d 'Another server with the same names, HOST:PORT: connections go to each in turn, and resume sessions of one at any other (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l send -d 'Bytes to send in each exchange: 4096, 4KiB, 1MiB (k and m mean KiB and MiB) [default: 4KiB]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l receive -d 'Bytes to expect back in each exchange [default: as --send]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l reply -d 'Whether the answer must equal the sent bytes (echo), or may be any bytes of that length (any) [default: echo when --send and --receive are equal]' -r -f -a "echo\t''
any\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -s n -l exchanges -d 'Exchanges on one connection before it is closed: a number, or unlimited [default: 1; HTTP: unlimited]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bulk -d 'Transfer bytes without a pause until the run ends: send, receive or both' -r -f -a "send\t''
receive\t''
both\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l http -d 'HTTP version of a target that is a URL: 1.1 or 2 [default: 1.1]' -r -f -a "1.1\t''
2\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l streams -d 'HTTP/2: requests in flight on one connection [default: 1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s X -l method -d 'Method of HTTP requests [default: GET; with --body: POST]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s H -l header -d 'Header of HTTP requests, `Name: value`, or @FILE with one on each line (may be repeated). Values that may be secret (authorization, cookie, token and the like in the name) are never in a report' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l body -d 'Body of HTTP requests: a text, or @FILE. It is sent with Content-Length, and without Content-Type unless --header gives one' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l url -d 'One of several requests, in turn by their weights: `[WEIGHT] [METHOD] PATH`, or @FILE with one on each line, each followed by its own headers and its body as @FILE, if any (may be repeated). The target then is https://HOST:PORT/' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l take -d 'Take a value from the answers of request N of --url (the first, unless given), and put it where later requests have {NAME} in path, headers or body: NAME=header:X-Token, N:NAME=json:/path/to/value. With --in-order (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l expect -d 'HTTP statuses that are no failure, classes and codes with commas: 2xx,404,429 [default: 2xx,3xx]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s c -l connections -d 'Connections open at the same time; each starts its next transaction when the last one has ended. With --rate: the most in flight [default: 32; with --rate or --find-max: 1024]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s r -l rate -d 'Start this many transactions a second, independent of the target; time counts from the intended start. 200..2000 rises evenly over the run. Stages have their lengths, and make the duration together: 0..500@30s,500@2m,2000@10s' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l arrivals -d 'Spacing of starts at a --rate: poisson (independent, like real clients) or fixed (even) [default: poisson]' -r -f -a "poisson\t''
fixed\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l think -d 'Pause between the end of a transaction and the next start on its connection, without --rate: 200ms, or 100ms..500ms for random pauses between the two [default: none]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s d -l duration -d 'Length of the measured part: 10s, 500ms, 1m30s [default: 10s]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l timeout -d 'Longest time that one connect, handshake or exchange may take before it fails [default: 10s]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l threads -d 'Generator threads on each machine [default: one for each core]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l find-max -d 'Search for the highest rate at which a bound holds, such as total.p99=50ms or errors=0.5%' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l find-start -d 'First rate that --find-max tries [default: 100]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l step -d 'Length of each step of --find-max [default: 5s]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l repeats -d 'How often --find-max tries each rate; the majority decides [default: 3]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l seed -d 'Seed of everything random, to repeat a run [default: random, and in the report]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l tls -d 'Versions offered, with commas [default: 1.3,1.2]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l suites -d 'Cipher suites offered, by their IANA names, best first [default: all that are supported]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l groups -d 'Groups of the key exchange, best first; the first one\'s key share is sent [default: X25519,secp256r1,secp384r1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l sni -d 'Name in SNI; off sends none; @FILE uses its names in turn, `NAME` or `WEIGHT NAME` on each line. A verified certificate must have the name that was sent, and the target\'s when none was [default: the target\'s name; none for an address]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l alpn -d 'Application protocols offered (ALPN), with commas [default: none; HTTP: http/1.1 or h2]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l client-certificate -d 'Client certificate chain to send, PEM' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l client-key -d 'Key of --client-certificate, PEM [default: it is in the same file]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l ca -d 'Verify the target\'s certificate against the authorities in this file, PEM' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l resume -d 'Share of handshakes that resume an earlier session: 0.7 or 70% [default: 0, all are full]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l profile -d 'Offer the TLS parameters of such clients, unless other options set them: browser (hybrid post-quantum key share), classic (X25519), small (one group, one suite), tls12. Versions, groups and size are imitated, the fingerprint is not' -r -f -a "browser\t''
classic\t''
small\t''
tls12\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l mix -d 'One kind of client of several, with its share of the connections: \'share=30 name=old tls=1.2 resume=0\', or @FILE with one on each line (may be repeated). Also profile, suites, groups, sni, alpn, client-certificate, client-key; missing settings are those of the options' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l close -d 'Which side ends a connection: notify (the generator, with close_notify and FIN), fin (the generator, with FIN only), reset (the generator, with a reset: no TIME_WAIT), server (the target) [default: notify; with http://: fin]' -r -f -a "notify\t''
fin\t''
reset\t''
server\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l source -d 'Address to connect from; 127.1.0.0/24 means each of its addresses in turn, each with its own ports (may be repeated) [default: the kernel chooses]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l workers -d 'NATS server of the workers (start them with `handfast worker`): nats://HOST:PORT or tls://HOST:PORT' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l machines -d 'Number of workers to use [default: 1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l fleet -d 'Fleet that the workers belong to: several can share one NATS server [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bus-ca -d 'Authority of the NATS server\'s certificate, PEM [default: the system\'s authorities]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bus-credentials -d 'File with one line, user:password, used to log in at the NATS server [default: those in the URL, if any]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l on-worker-lost -d 'When a worker is lost: fail (end the run) or continue (with the others, and report the loss) [default: fail]' -r -f -a "fail\t''
continue\t''"
complete -c handfast -n "__fish_handfast_using_subcommand load" -l pid -d 'Count the CPU time of this process of the server and its children (same machine)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l cgroup -d 'Count the CPU time of this control group of the server (same machine)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l status -d 'The target is a Handfast proxy with this admin address: compare its counters with the measurements here, and show where the time was spent. http://HOST:PORT/ or unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l max -d 'Exit with 4 when a figure is above this: total.p99=50ms, handshake.mean=5ms, errors=0.1% (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l min -d 'Exit with 4 when a figure is below this: rate=1000 (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l json -d 'Complete report as JSON, for programs, `handfast compare` and --replay (in all of these options, - is standard output)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l csv -d 'One line for each second, for spreadsheets' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l csv-latencies -d 'One line for each step and percentile, for spreadsheets' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l openmetrics -d 'Metrics as OpenMetrics text, which node_exporter\'s text-file collector reads too' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l hlog -d 'HdrHistogram log, for its tools' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l html -d 'One HTML page with plots, without network access' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l live-json -d 'During the run, a line of JSON for each second' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l metrics -d 'During the run, serve figures in the OpenMetrics format at http://ADDRESS/metrics, and for `handfast top ADDRESS`: PORT (on 127.0.0.1) or ADDRESS:PORT' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l replay -d 'Repeat the run of a JSON report; only options about outputs and workers are allowed with it' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l handshake-only -d 'Connect, handshake, close: no application data'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l idle -d 'Open --connections, then keep them open without traffic until the run ends'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l in-order -d 'Send the requests of --url in their order on each connection, instead of by weights'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l verify -d 'Verify the target\'s certificate against the system\'s authorities [default: not verified]'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l early-data -d 'Send the request as 0-RTT data where a resumed handshake allows it'
complete -c handfast -n "__fish_handfast_using_subcommand load" -s q -l quiet -d 'Print nothing but errors and warnings, on standard error: no progress, no report'
complete -c handfast -n "__fish_handfast_using_subcommand load" -s v -l verbose -d 'Print the whole report instead of one screen: what was done, every step, error and count, the generator\'s own health, notes, and the command that repeats the run'
complete -c handfast -n "__fish_handfast_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l name -d 'Name in reports [default: host name and process ID]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l fleet -d 'Fleet that the workers belong to: several can share one NATS server [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l bus-ca -d 'Authority of the NATS server\'s certificate, PEM [default: the system\'s authorities]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l bus-credentials -d 'File with one line, user:password, used to log in at the NATS server [default: those in the URL, if any]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -a "setup" -d 'Write a NATS server\'s configuration, a separate CA, and passwords for coordinator and workers'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l host -d 'Name or address under which machines will reach the NATS server' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l port -d 'Port on which the NATS server will listen [default: 4222]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l fleet -d 'Fleet whose subjects its users may use; all its machines must name the same [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l before -d 'JSON reports of the runs of one side; the test needs at least three of each side' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l after -d 'JSON reports of the runs of the other side, which were made in turn with the first' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l across-targets -d 'Compare two servers: the targets of the two sides may differ'
complete -c handfast -n "__fish_handfast_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l from-pcap -d 'Analyse a capture instead of measuring (pcap or pcapng; - is standard input). No key is needed' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l file -d 'Also read targets from a file, one on each line; # begins a comment. The result is a line for each' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s n -l runs -d 'Connections of each kind: full, resumed' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l starttls -d 'Protocol before TLS: smtp, lmtp, imap, pop3, nntp, ldap, postgresql, mysql, xmpp, xmpp-server' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l timeout -d 'Longest time that one step of a connection may take' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l requests -d 'Requests on one connection, to test that it is kept (with https://)' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l keep-alive -d 'Measure for how long, and for how many requests (1,001 at most), the server keeps a connection, with https://; each test takes at most this time: 60s' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l watch -d 'Measure all targets repeatedly, until Ctrl-C, with this pause between two rounds (--watch=SECONDS) [default: 5]. Each round makes three connections to each target, and shows the time of a full handshake' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l page -d 'Compute the time of a page: 10x40KiB' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l status -d 'The target is a Handfast proxy with this admin address: compare its counters with the measurements here, and show where the time was spent. http://HOST:PORT/ or unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l tls -d 'Versions offered, with commas [default: 1.3,1.2]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l suites -d 'Cipher suites offered, by their IANA names, best first [default: all that are supported]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l groups -d 'Groups of the key exchange, best first; the first one\'s key share is sent [default: X25519MLKEM768,X25519,secp256r1,secp384r1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l sni -d 'Name in SNI, which the certificate must have; off sends none [default: the target\'s name; none for an address]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l alpn -d 'Application protocols offered (ALPN), with commas [default: h2,http/1.1 on port 443; none elsewhere; https://: http/1.1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l ca -d 'Verify the certificate against the authorities in this file, PEM [default: the system\'s]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l client-certificate -d 'Client certificate chain to send, PEM' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l client-key -d 'Key of --client-certificate, PEM [default: it is in the same file]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l max -d 'Exit with 4 when a figure is above this: appconnect=60ms, resumed.handshake.p95=30ms (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l format -d 'Format of standard output: text, or curl (the timers, as `curl -w` prints them)' -r -f -a "text\t'For people'
curl\t'As curl\'s'"
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l json -d 'Complete report as JSON, for programs: one object for each target, one on each line for several targets; with --watch a shorter one for each round; - is standard output' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l pcap -d 'Capture the packets, with the keys of these sessions, so that Wireshark can decrypt them (pcapng; needs root or CAP_NET_RAW)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l html -d 'A page with a waterfall, for a browser' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s 4 -l v4 -d 'Use IPv4 addresses only'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s 6 -l v6 -d 'Use IPv6 addresses only'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l early-data -d 'Also try early data (0-RTT), with https://. An attacker can replay the request: use it only if a repetition does no harm'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s v -l verbose -d 'Print the whole report instead of one screen: every step and flight, bytes, addresses, all findings and notes'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s k -l insecure -d 'Do not verify the certificate'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand explain" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand proxy-header" -l json -d 'Print one line of JSON'
complete -c handfast -n "__fish_handfast_using_subcommand proxy-header" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l certificate -d 'Also predict for this certificate: a chain in PEM, without its key (may be repeated)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l compare -d 'Also run another program\'s measurement, and show its figures beside ours (half a minute)' -r -f -a "openssl\t'`openssl speed`'"
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l limit -d 'Also measure the combined limit: the least time of a proxy with this library and these sockets'
complete -c handfast -n "__fish_handfast_using_subcommand speed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l interval -d 'How long to watch the kernel\'s counters, or a process\'s threads' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -s c -l config -d 'Also check whether this configuration of the proxy fits the machine, and its keys and certificates' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l pid -d 'Examine one process instead of the machine: threads that never sleep, the system calls that threads wait in, descriptors, sockets by state' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l root -d 'Examine a copy of /proc and /sys below this folder instead of this machine' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -s v -l verbose -d 'Print the whole report instead of one screen: every finding with its arithmetic, all facts, and what could not be examined'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -f -a "keys" -d 'Keys and certificates: weak or compromised ones, those about to expire, invalid chains, one key for unrelated names'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -f -a "size" -d 'Resources for a planned load: cores, memory, source ports, files, the kernel\'s tables, each with its arithmetic and the command to change it; and which resource runs out first'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l weak-keys -d 'A list of compromised keys, in a format of `handfast weak-keys` and the configuration (may be repeated)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l expires-within -d 'Report certificates that expire within this number of days, or a third of their lifetime if that is less' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -s v -l verbose -d 'Print the whole report instead of one screen: every finding with its arithmetic, all facts, and what could not be examined'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l full -d 'New connections a second with a full handshake: 500, 2.5k' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l resumed -d 'New connections a second that resume a session' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l open -d 'Connections that stay open' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l bytes -d 'Plaintext bytes a second, in and out together: 100MiB' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l key -d 'Kind of the certificate\'s key: ECDSA-P256, ECDSA-P384, Ed25519, RSA-2048, RSA-3072, RSA-4096' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l group -d 'Group of the key exchange: X25519, X25519MLKEM768, P-256, P-384' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l backends -d 'Addresses of backends, to each of which the proxy can connect from all its source ports; 0: unix sockets' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l sources -d 'Addresses of the proxy\'s machine for connections to backends' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l busy -d 'Highest CPU load: beyond it waiting times grow fast' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l rtt -d 'Round trip of the clients\' network, during which bytes stay in the kernel\'s buffers' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l cores -d 'Cores for the proxy [default: those of the measured machine]' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l from -d 'Read the CPU costs from a file that `handfast speed --limit --json` wrote, for instance on another machine' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l pairs -d 'Pairs of sockets to open briefly, to measure the kernel\'s memory' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l backend-tls -d 'The backends have TLS too; the proxy resumes its sessions with them'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -s v -l verbose -d 'Print the whole report instead of one screen: every finding with its arithmetic, all facts, and what could not be examined'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l rtt -d 'Round-trip time between client and server: 114ms [default: no delay]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l jitter -d 'Variation of the delay in each direction, uniformly in both senses; packets keep their order' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l loss -d 'Share of packets lost in each direction: 1% or 0.01' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l rate -d 'Bits a second in each direction, counted from the IP header on: 20mbit, 512kbit, 1gbit [default: no limit]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l reorder -d 'Share of packets held back in each direction, by a quarter of its delay and at least 1 ms, so that others overtake them' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l mtu -d 'Largest packet, in bytes [default: 1500]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l queue -d 'Size of the queue with --rate: packets such as 100, or bytes such as 64KiB; further packets are dropped [default: 100]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l topology -d 'Any network, from a file in TOML (see below)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l seed -d 'Seed of everything random, to repeat a run [default: random, and in the report]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l server -d 'Command on the other side, in quotation marks; a shell runs it' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l server-port -d 'TCP port of --server to wait for [default: the first port that it listens on]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l server-timeout -d 'How long a server may take until it listens' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l engine -d 'Technique to carry packets: veth or tun [default: the first that works here, veth before tun]' -r -f -a "veth\t'A cable, and a packet socket at its end'
tun\t'An interface behind /dev/net/tun'"
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l capture -d 'Capture every packet at both ends in a file for Wireshark, with the TLS secrets of programs that support SSLKEYLOGFILE' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -l json -d 'Write what the network did as JSON; - for standard output' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -s q -l quiet -d 'Do not print the report'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -a "sockets" -d 'Measure the errors of sockets on this kernel when connections break'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets handshake" -a "handshake" -d 'Measure the cost of each kind of handshake on a long path, with every installed server'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l only -d 'Measure this row only (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l runs -d 'Repeat each experiment this number of times, and compare the results' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l engine -d 'Technique to carry packets: veth or tun [default: the first that works here, tun before veth]' -r -f -a "veth\t'A cable, and a packet socket at its end'
tun\t'An interface behind /dev/net/tun'"
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l page -d 'Write the page of this kernel, as docs/reference has it' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l list -d 'List the rows, and exit'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l rtt -d 'Round-trip time to the server' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l runs -d 'Repetitions of each handshake; the median is shown' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l server -d 'Measure with this server (may be repeated) [default: all that are installed]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l html -d 'Write one page with waterfalls that needs no network' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and not __fish_seen_subcommand_from pack" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and not __fish_seen_subcommand_from pack" -f -a "pack" -d 'Merge lists into one sorted binary list: it is read much faster, and damage is detected'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and __fish_seen_subcommand_from pack" -s o -l output -d 'The file to write; an existing one is replaced as a whole' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and __fish_seen_subcommand_from pack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand key-process" -l supervise -d 'Start the process that holds the keys, and restart it when it ends'
complete -c handfast -n "__fish_handfast_using_subcommand key-process" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand start-programs" -l supervise -d 'Start the process that starts the programs, and restart it when it ends'
complete -c handfast -n "__fish_handfast_using_subcommand start-programs" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand reference" -s h -l help -d 'Print help'
