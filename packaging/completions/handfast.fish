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
complete -c handfast -n "__fish_handfast_needs_command" -f -a "check" -d 'Check a configuration: everything that is wrong with it, and what it would do'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "log" -d 'Read the access log: failures with their reasons, slow connections, counts and percentiles'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "import" -d 'Write a configuration anew that stunnel, hitch or ghostunnel was run with'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "top" -d 'Show a running proxy live in the terminal'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reload" -d 'Have a running proxy read its configuration and certificates again, and report what came of it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reopen" -d 'Have a running proxy open its access log again, after a rotation'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "drain" -d 'Have a running proxy accept no more, and return at once; it ends when its connections have, or after process.drain'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "stop" -d 'Stop a running proxy: as drain, and wait until it has ended'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "upgrade" -d 'Replace a running proxy by a new process, without a lost connection'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "load" -d 'Put load on a TLS server, and say what the figures are worth'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "worker" -d 'Make load for a `handfast load --workers` on another machine'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "compare" -d 'Show two runs side by side, or say whether two groups of runs differ by more than chance'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "probe" -d 'Say where the time of a TLS connection goes, and what would make it shorter'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "explain" -d 'Explain a topic that `handfast probe` names'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "proxy-header" -d 'Say what a PROXY header says, or exactly what is wrong with it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "speed" -d 'Measure what this CPU can do for TLS, and predict handshakes and bytes from it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "doctor" -d 'Say what on this machine limits or endangers TLS service, worst first, and the command that changes it'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "lab" -d 'Run a command on a network of its own: with a delay, with losses, at a rate'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "weak-keys" -d 'Make lists of keys that are known to others ready for the proxy (`[process] weak-keys`)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "key-process" -d 'Hold private keys for a proxy, which starts this itself (`process.private-keys`)'
complete -c handfast -n "__fish_handfast_needs_command" -f -a "reference" -d 'Print the reference of the configuration file, or of a command, as Markdown'
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -s c -l config -d 'Configuration file' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l listen -d 'Address to listen on: 0.0.0.0:8443, [::1]:8443, *:8443, unix:/run/x.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l backend -d 'Backend: 127.0.0.1:8080, app.example.org:8080, unix:/run/app.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l certificate -d 'Certificate chain in PEM, with or without its key, or a folder of them (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l key -d 'Key in PEM, when it is not in the certificate\'s file' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l admin -d 'Where metrics and status are served: 127.0.0.1:9901 by default, unix:/run/x.sock, off' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l access-log -d 'Where the access log goes: stdout, off, or a file' -r
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l stunnel -d 'A configuration of stunnel, which is read anew at each reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l hitch -d 'A configuration of hitch, which is read anew at each reload; see `handfast import`' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l ca-file -d 'Where the certificate of the throwaway CA is written (only without -c and flags)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -l take-over -d 'Take over from the running process that can be asked at this socket (`process.upgrade-socket`); `handfast upgrade` does this' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand proxy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand check" -s c -l config -d 'Configuration file' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand check" -l listen -d 'Address to listen on: 0.0.0.0:8443, [::1]:8443, *:8443, unix:/run/x.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l backend -d 'Backend: 127.0.0.1:8080, app.example.org:8080, unix:/run/app.sock (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l certificate -d 'Certificate chain in PEM, with or without its key, or a folder of them (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l key -d 'Key in PEM, when it is not in the certificate\'s file' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l admin -d 'Where metrics and status are served: 127.0.0.1:9901 by default, unix:/run/x.sock, off' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l access-log -d 'Where the access log goes: stdout, off, or a file' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l explain -d 'Explain in sentences what it listens on, which certificate serves which names, and where connections go; with HOST, what becomes of a client that asks for this name (SNI): by which rule, with which certificate, to which backends' -r
complete -c handfast -n "__fish_handfast_using_subcommand check" -l ready -d 'Check instead whether the proxy that runs with this configuration is ready for clients: ask for /ready at its admin address. Exit code 0 when it is, 1 when it is not or does not answer'
complete -c handfast -n "__fish_handfast_using_subcommand check" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s c -l config -d 'The proxy\'s configuration, which says where the access log is (`access-log.to`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand log" -l since -d 'Only connections that ended at this time or later' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l until -d 'Only connections that ended before this time' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l cause -d 'Only connections that ended for this cause, a word of the runbook such as `reset` (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l client -d 'Only clients of this address or network: 192.0.2.7, 2001:db8::/32 (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l service -d 'Only connections of this service (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l slow -d 'Only connections with a handshake and a connect to the backend that took this long together, or longer' -r
complete -c handfast -n "__fish_handfast_using_subcommand log" -l failures -d 'Only connections that did not end in order'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s f -l follow -d 'Go on when the end is reached, until stopped; without --since from the end of the file. A rotation is followed'
complete -c handfast -n "__fish_handfast_using_subcommand log" -l summary -d 'Counts by cause, side, step and service, and percentiles of times, in place of lines'
complete -c handfast -n "__fish_handfast_using_subcommand log" -l json -d 'Print the lines as they are in the file, for jq and other programs'
complete -c handfast -n "__fish_handfast_using_subcommand log" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -s o -l output -d 'The file to write; one that is there is not touched [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -l strict -d 'Exit with 1 when anything does not mean exactly the same, and write nothing then'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -f -a "stunnel" -d 'stunnel.conf'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -f -a "hitch" -d 'hitch.conf'
complete -c handfast -n "__fish_handfast_using_subcommand import; and not __fish_seen_subcommand_from stunnel hitch ghostunnel" -f -a "ghostunnel" -d 'ghostunnel\'s command line, behind `--`'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -s o -l output -d 'The file to write; one that is there is not touched [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -l strict -d 'Exit with 1 when anything does not mean exactly the same, and write nothing then'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from stunnel" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -s o -l output -d 'The file to write; one that is there is not touched [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -l strict -d 'Exit with 1 when anything does not mean exactly the same, and write nothing then'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from hitch" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -s o -l output -d 'The file to write; one that is there is not touched [default: standard output]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -l strict -d 'Exit with 1 when anything does not mean exactly the same, and write nothing then'
complete -c handfast -n "__fish_handfast_using_subcommand import; and __fish_seen_subcommand_from ghostunnel" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand top" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand top" -l interval -d 'Seconds from one picture to the next, 1 to 60' -r
complete -c handfast -n "__fish_handfast_using_subcommand top" -l once -d 'Print everything once, as plain text, and end; needs no terminal'
complete -c handfast -n "__fish_handfast_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand reload" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand reopen" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand reopen" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand drain" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand drain" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand stop" -s c -l config -d 'The proxy\'s configuration, which says where its admin address is (`admin.listen`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand stop" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -s c -l config -d 'The running process\'s configuration, which says where to ask it (`process.upgrade-socket`)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -l socket -d 'Where to ask it, in place of what the configuration says' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -l program -d 'Program to replace it by; the running one\'s own by default, as it is on disk now. Where this command starts it, only root may be able to change the file' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand upgrade" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l send -d 'Bytes to send in each exchange: 4096, 4KiB, 1MiB (k and m mean KiB and MiB) [default: 4KiB]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l receive -d 'Bytes to expect back in each exchange [default: as many as are sent]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l reply -d 'Whether what comes back must be what was sent (echo), or may be anything of that length (any) [default: echo when --send and --receive are equal]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s n -l exchanges -d 'Exchanges on one connection before it is closed: a number, or unlimited [default: 1; HTTP: unlimited]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bulk -d 'Transfer bytes without a pause until the run ends: send, receive or both' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l http -d 'HTTP version of an https:// target: 1.1 or 2 [default: 1.1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l streams -d 'HTTP/2: requests in flight on one connection [default: 1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s X -l method -d 'Method of HTTP requests [default: GET; with --body: POST]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s H -l header -d 'Header of HTTP requests, `Name: value`, or @FILE with one on each line (may be repeated). Values that may be secret (authorization, cookie, token and the like in the name) are in no report' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l body -d 'Body of HTTP requests: a text, or @FILE. It goes with Content-Length, and with no Content-Type unless --header says one' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l url -d 'One of several requests, in turn by their weights: `[WEIGHT] [METHOD] PATH`, or @FILE with one on each line, each followed by its own headers and its body as @FILE, if any (may be repeated). The target then is https://HOST:PORT/' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s c -l connections -d 'Connections open at the same time; each starts its next transaction when the last one has ended. With --rate: the most in flight [default: 32; with --rate or --find-max: 1024]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -s r -l rate -d 'Start this many transactions a second, whatever the target does; time counts from the intended start. 200..2000 rises evenly over the run' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l arrivals -d 'How starts are spaced at a --rate: poisson (independently, as customers come) or fixed (evenly) [default: poisson]' -r
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
complete -c handfast -n "__fish_handfast_using_subcommand load" -l profile -d 'Offer what such clients offer, where no other option says it: browser (hybrid post-quantum key share), classic (X25519), small (one group, one suite), tls12. Versions, groups and size are imitated, the fingerprint is not' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l mix -d 'One kind of client of several, with its share of the connections: \'share=30 name=old tls=1.2 resume=0\', or @FILE with one on each line (may be repeated). Also profile, suites, groups, sni, alpn, client-certificate, client-key; what is not given is as for all' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l close -d 'Who ends a connection: notify (the generator, with close_notify and FIN), fin (the generator, with FIN only), reset (the generator, with a reset: no TIME_WAIT), server (the target) [default: notify]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l source -d 'Address to connect from; 127.1.0.0/24 means each of its addresses in turn, each with its own ports (may be repeated) [default: the kernel chooses]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l workers -d 'NATS server at which workers wait (start them with `handfast worker`): nats://HOST:PORT or tls://HOST:PORT' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l machines -d 'How many of the workers to use [default: 1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l fleet -d 'Fleet that the workers belong to: several can share one NATS server [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bus-ca -d 'Authority of the NATS server\'s certificate, PEM [default: the system\'s authorities]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l bus-credentials -d 'File with one line, user:password, used to log in at the NATS server [default: those in the URL, if any]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l on-worker-lost -d 'When a worker is lost: fail (end the run) or continue (with the others, and say so) [default: fail]' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l pid -d 'Count the CPU time of this process of the server and its children (same machine)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l cgroup -d 'Count the CPU time of this control group of the server (same machine)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l status -d 'The target is a Handfast proxy whose admin address is this: set what it counted beside what is seen here, and say who took the time. http://HOST:PORT/ or unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l max -d 'Exit with 4 when a figure is above this: total.p99=50ms, handshake.mean=5ms, errors=0.1% (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l min -d 'Exit with 4 when a figure is below this: rate=1000 (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l json -d 'Everything, for programs, `handfast compare` and --replay (in all of these, - is standard output)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l csv -d 'One line for each second, for spreadsheets' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l csv-latencies -d 'One line for each step and percentile, for spreadsheets' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l openmetrics -d 'Metrics as OpenMetrics text, which node_exporter\'s text-file collector reads too' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l hlog -d 'HdrHistogram log, for its tools' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l html -d 'One page with plots that needs no network, for people' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l live-json -d 'While it runs, a line of JSON for each second' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l metrics -d 'While it runs, serve figures in the OpenMetrics format at http://ADDRESS/metrics, and for `handfast top ADDRESS`: PORT (on 127.0.0.1) or ADDRESS:PORT' -r
complete -c handfast -n "__fish_handfast_using_subcommand load" -l replay -d 'Repeat the run of a JSON report; only outputs and where to run may be given with it' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand load" -l handshake-only -d 'Connect, handshake, close: no application data'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l idle -d 'Open --connections, then keep them open without traffic until the run ends'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l verify -d 'Verify the target\'s certificate against the system\'s authorities [default: not verified]'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l early-data -d 'Send the request as 0-RTT data where a resumed handshake allows it'
complete -c handfast -n "__fish_handfast_using_subcommand load" -l kubernetes-job -d 'Print a Kubernetes Job that starts --machines workers for --workers, and run nothing'
complete -c handfast -n "__fish_handfast_using_subcommand load" -s q -l quiet -d 'Print nothing but errors and warnings, on standard error: no progress, no report'
complete -c handfast -n "__fish_handfast_using_subcommand load" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l name -d 'Name in reports [default: the machine\'s name and the process\'s number]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l fleet -d 'Fleet that the workers belong to: several can share one NATS server [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l bus-ca -d 'Authority of the NATS server\'s certificate, PEM [default: the system\'s authorities]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -l bus-credentials -d 'File with one line, user:password, used to log in at the NATS server [default: those in the URL, if any]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and not __fish_seen_subcommand_from setup" -a "setup" -d 'Write a NATS server\'s configuration, a CA of its own and passwords for coordinator and workers'
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l host -d 'Name or address under which workers will reach the NATS server' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l port -d 'Port on which the NATS server will listen [default: 4222]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -l fleet -d 'Fleet whose subjects its users may use; everyone then has to give it too [default: default]' -r
complete -c handfast -n "__fish_handfast_using_subcommand worker; and __fish_seen_subcommand_from setup" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l before -d 'JSON reports of the runs of one side; at least three of each side for a claim' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l after -d 'JSON reports of the runs of the other side, which were made in turn with the first' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand compare" -l across-targets -d 'Compare two servers: the targets of the two sides may differ'
complete -c handfast -n "__fish_handfast_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l from-pcap -d 'Measure nothing: say what a capture shows (pcap or pcapng; - is standard input). No key is needed' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l file -d 'Targets from a file too, one on each line; # begins a comment. The result is a line for each' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s n -l runs -d 'Connections of each kind: full, resumed' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l starttls -d 'What is spoken before TLS: smtp, lmtp, imap, pop3, nntp, ldap, postgresql, mysql, xmpp, xmpp-server' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l timeout -d 'Longest time that one step of a connection may take' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l requests -d 'Requests on one connection, to see that it is kept (with https://)' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l keep-alive -d 'Find out by trying for how long, and for how many requests (1,001 at most), the server keeps a connection, with https://; neither is tried for longer than this: 60s' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l watch -d 'Measure all targets again and again, until Ctrl-C: so many seconds lie between two rounds (--watch=SECONDS) [default: 5]. Each time three connections to each target are made; what is shown is the time of a full handshake' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l page -d 'Compute what a page would take: 10x40KiB' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l status -d 'The target is a Handfast proxy whose admin address is this: set what it counted beside what is seen here, and say who took the time. http://HOST:PORT/ or unix:/PATH' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l tls -d 'Versions offered, with commas [default: 1.3,1.2]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l suites -d 'Cipher suites offered, by their IANA names, best first [default: all that are supported]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l groups -d 'Groups of the key exchange, best first; the first one\'s key share is sent [default: X25519MLKEM768,X25519,secp256r1,secp384r1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l sni -d 'Name in SNI, and to be verified; off sends none [default: the target\'s name; none for an address]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l alpn -d 'Application protocols offered (ALPN), with commas [default: h2,http/1.1 on port 443; none elsewhere; https://: http/1.1]' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l ca -d 'Verify the certificate against the authorities in this file, PEM [default: the system\'s]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l client-certificate -d 'Client certificate chain to send, PEM' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l client-key -d 'Key of --client-certificate, PEM [default: it is in the same file]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l max -d 'Exit with 4 when a figure is above this: appconnect=60ms, resumed.handshake.p95=30ms (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l format -d 'What goes to standard output: text, or curl (the timers, as `curl -w` prints them)' -r -f -a "text\t'For people'
curl\t'As curl\'s'"
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l json -d 'Everything, for programs: one object for each target, on a line of its own where there are several; with --watch a shorter one for each round; - is standard output' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l pcap -d 'Capture the packets meanwhile, with the keys of these sessions, so that Wireshark opens them decrypted (pcapng; needs root or CAP_NET_RAW)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l html -d 'A page with a waterfall, for a browser' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s 4 -l v4 -d 'Use IPv4 addresses alone'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s 6 -l v6 -d 'Use IPv6 addresses alone'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -l early-data -d 'Try early data (0-RTT) too, with https://. Who sees the request can send it again: use it for what does no harm twice'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s k -l insecure -d 'Do not verify the certificate'
complete -c handfast -n "__fish_handfast_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand explain" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand proxy-header" -l json -d 'Say it as one line of JSON'
complete -c handfast -n "__fish_handfast_using_subcommand proxy-header" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l certificate -d 'Predict for this certificate too: a chain in PEM, its key is not needed (may be repeated)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l compare -d 'Run another program\'s measurement too, and show its figures beside ours (half a minute)' -r -f -a "openssl\t'`openssl speed`'"
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand speed" -l limit -d 'Measure the combined limit too: the least time that a proxy made of this library and these sockets can need'
complete -c handfast -n "__fish_handfast_using_subcommand speed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l interval -d 'How long the kernel\'s counters, or a process\'s threads, are watched' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -s c -l config -d 'Say too whether this configuration of the proxy fits the machine, and what of its keys and certificates is wrong' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l pid -d 'Examine one process instead of the machine: threads that never sleep, the system calls that threads sit in, descriptors, sockets by state' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l root -d 'Examine a copy of /proc and /sys below this folder instead of this machine' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -f -a "keys" -d 'Keys and certificates: weak or known ones, those about to expire, chains out of order, one key for unrelated names'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and not __fish_seen_subcommand_from keys size" -f -a "size" -d 'What a wanted load needs: cores, memory, source ports, files, the kernel\'s tables, each with its arithmetic and the command that changes it; and what gives out first'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l weak-keys -d 'A list of keys that are known to others, as `handfast weak-keys` and the configuration take them (may be repeated)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l expires-within -d 'Tell of certificates that expire within so many days, or a third of their life if that is less' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from keys" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l full -d 'New connections a second with a full handshake: 500, 2.5k' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l resumed -d 'New connections a second that resume a session' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l open -d 'Connections that stay open' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l bytes -d 'Plaintext bytes a second, in and out together: 100MiB' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l key -d 'Kind of the certificate\'s key: ECDSA-P256, ECDSA-P384, Ed25519, RSA-2048, RSA-3072, RSA-4096' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l group -d 'Group of the key exchange: X25519, X25519MLKEM768, P-256, P-384' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l backends -d 'Addresses of backends, each of which the proxy can dial from all its source ports; 0: unix sockets' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l sources -d 'Addresses of the proxy\'s machine that backends are dialled from' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l busy -d 'Share of the cores that may be busy: beyond it waiting times grow fast' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l rtt -d 'Round trip of the clients\' network, for which bytes wait in the kernel\'s buffers' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l cores -d 'Cores for the proxy [default: those of the machine that was measured]' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l from -d 'Take what handshakes and bytes cost from what `handfast speed --limit --json` wrote, perhaps on another machine' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l pairs -d 'Pairs of sockets to open for a moment, to measure the kernel\'s memory' -r
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -l backend-tls -d 'The backends have TLS too; the proxy resumes its sessions with them'
complete -c handfast -n "__fish_handfast_using_subcommand doctor; and __fish_seen_subcommand_from size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l rtt -d 'Time from the client to the server and back: 114ms [default: no delay]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l jitter -d 'By how much each direction varies, evenly to both sides; packets keep their order' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l loss -d 'Share of packets lost in each direction: 1% or 0.01' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l rate -d 'Bits a second in each direction, counted from the IP header on: 20mbit, 512kbit, 1gbit [default: no limit]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l reorder -d 'Share of packets held back in each direction, by a quarter of its delay and at least 1 ms, so that others overtake them' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l mtu -d 'Largest packet, in bytes [default: 1500]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l queue -d 'What may wait where there is a --rate: packets such as 100, or bytes such as 64KiB; what comes then is dropped [default: 100]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l topology -d 'Any network, from a file in TOML (see below)' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l seed -d 'Seed of everything random, to repeat a run [default: random, and in the report]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l server -d 'What runs on the other side: a command in quotation marks, which the shell reads' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l server-port -d 'TCP port on which --server is waited for [default: the first one on which anybody listens there]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l server-timeout -d 'How long a server may take until it listens' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l engine -d 'What carries packets: veth or tun [default: what works here, veth first]' -r -f -a "veth\t'A cable, and a packet socket at its end'
tun\t'An interface behind /dev/net/tun'"
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l capture -d 'Keep every packet at both ends in a file for Wireshark, with the secrets of TLS sessions whose programs heed SSLKEYLOGFILE' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -l json -d 'Write what really happened as JSON; - for standard output' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -s q -l quiet -d 'Do not print the report'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -a "sockets" -d 'Measure what sockets say on this kernel when connections break'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -a "faults" -d 'Try what peers, the network, the machine and its operator can do to the proxy'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and not __fish_seen_subcommand_from sockets faults handshake" -a "handshake" -d 'Measure what each kind of handshake costs on a long path, with every server that is installed'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l only -d 'Measure this row only (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l runs -d 'Run each experiment so often, and see whether it is the same each time' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l engine -d 'What carries packets: veth or tun [default: what works here, tun first]' -r -f -a "veth\t'A cable, and a packet socket at its end'
tun\t'An interface behind /dev/net/tun'"
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l page -d 'Write the page that docs/sockets has for each kernel' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -l list -d 'Say which rows there are, and end'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from sockets" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l only -d 'Try this case only (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l mode -d 'Try cases in this mode only (may be repeated)' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l program -d 'The program to test [default: this one]' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l limit -d 'Stop after so long, finished or not' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l quick -d 'Try each case in one of its modes, instead of all'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -l list -d 'Say which cases and modes there are, and what is not tried, and end'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from faults" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l rtt -d 'Time to the server and back' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l runs -d 'How often each handshake is made; the one in the middle is shown' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l server -d 'Measure with this server (may be repeated) [default: all that are installed]' -r
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l json -d 'Write everything as JSON; - for standard output, and the text then goes to standard error' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -l html -d 'Write one page with waterfalls that needs no network' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand lab; and __fish_seen_subcommand_from handshake" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and not __fish_seen_subcommand_from pack" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and not __fish_seen_subcommand_from pack" -f -a "pack" -d 'Make one sorted binary list of others: it is read much sooner, and a damaged copy of it is noticed'
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and __fish_seen_subcommand_from pack" -s o -l output -d 'The file to write; one that is there is replaced as a whole' -r -F
complete -c handfast -n "__fish_handfast_using_subcommand weak-keys; and __fish_seen_subcommand_from pack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c handfast -n "__fish_handfast_using_subcommand key-process" -l supervise -d 'Start the process that holds the keys, and again when it ends'
complete -c handfast -n "__fish_handfast_using_subcommand key-process" -s h -l help -d 'Print help'
complete -c handfast -n "__fish_handfast_using_subcommand reference" -s h -l help -d 'Print help'
