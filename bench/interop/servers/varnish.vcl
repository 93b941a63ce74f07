vcl 4.1;
import proxy;
backend none none;
sub vcl_recv { return (synth(200)); }
sub vcl_synth {
  set resp.http.alpn = proxy.alpn();
  set resp.http.authority = proxy.authority();
  set resp.http.tls = "" + proxy.is_ssl() + " " + proxy.ssl_version() + " " + proxy.ssl_cipher();
  set resp.http.client = "" + proxy.client_has_cert_sess() + " " + proxy.ssl_verify_result() + " " + proxy.client_cert_cn();
  set resp.http.key = proxy.cert_key();
  return (deliver);
}
