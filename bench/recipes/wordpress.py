"""The recipe for WordPress, with MariaDB.

In: a trial. Out: its rows.
"""

import json
import os
import re
import shutil

from harness.machine import Process, wait_until
from web import tools

from .applications import CLIENT, PASSWORD, php_fpm
from .trial import HERE, free_port, run

# What nginx needs for the recipe, and what is taken away to see what it does.
FROM_HANDFAST = "fastcgi_param HTTPS $client_https if_not_empty;"


def wordpress(trial):
    site, socket = trial.folder / "site", trial.folder / "mariadb.sock"
    shutil.copytree("/usr/share/wordpress", site, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns("wp-config.php", "uploads"))
    (site / "wp-config.php").write_text((HERE / "wordpress.php").read_text().replace("SOCKET", str(socket)))
    (site / "wp-content/uploads").mkdir()
    database(trial.folder, socket)
    php_fpm(trial.folder)
    port, without = free_port(), free_port()
    places = {"/usr/share/wordpress": site, "/run/php/php8.2-fpm.sock": trial.folder / "php-fpm.sock"}
    trial.nginx(port, {**places, "127.0.0.1:8080": f"127.0.0.1:{port}"})
    trial.nginx(without, {**places, "127.0.0.1:8080": f"127.0.0.1:{without}", FROM_HANDFAST: ""})
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{port}"})
    form = {"weblog_title": "Recipe", "user_name": "alice", "admin_password": PASSWORD, "admin_password2": PASSWORD, "pw_weak": "1",
            "admin_email": "alice@example.org", "blog_public": "0"}
    trial.check("installed", "Success!" in trial.curl("/wp-admin/install.php?step=2", *encoded(form)).text)
    for version in ("1.1", "2"):
        use(trial, f"HTTP/{version}", f"--http{version}", socket)
    trial.handfast({"127.0.0.1:8080": f"127.0.0.1:{without}"})
    again = trial.curl("/wp-login.php")
    trial.check("without the HTTPS parameter the sign-in page redirects to itself", (again.status, again.fields.get("location")),
                (302, "https://localhost/wp-login.php"))


def database(folder, socket):
    data = folder / "mariadb"
    user = ["--user=root"] if os.geteuid() == 0 else []
    run([tools.find("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", *user])
    process = Process([tools.find("mariadbd"), "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking", *user], None,
                      folder / "mariadbd.log", folder)
    wait_until("MariaDB to listen", socket.exists, 60, process)
    query(socket, "CREATE DATABASE wordpress")


def query(socket, statement):
    return run([tools.find("mariadb"), "--no-defaults", f"--socket={socket}", "--user=root", "-N", "-e", statement]).strip()


def encoded(form):
    return [word for key, value in form.items() for word in ("--data-urlencode", f"{key}={value}")]


def use(trial, label, version, socket):
    """What an author does: signs in, uploads a file, writes a comment."""
    cookies, name = trial.folder / f"cookies{version}", f"file{version[-1]}.txt"
    browser = (version, "--interface", CLIENT, "-b", cookies, "-c", cookies)
    trial.curl("/wp-login.php", *browser)
    entered = trial.curl("/wp-login.php", *browser, *encoded({"log": "alice", "pwd": PASSWORD, "testcookie": "1"}))
    trial.check(f"{label}: signed in, by https", (entered.status, entered.fields.get("location")), (302, "https://localhost/wp-admin/"))
    cookie = entered.fields.get("set-cookie", "")
    trial.check(f"{label}: the cookie is for TLS alone", bool(re.search(r"wordpress_sec_[^;]+;[^,]*(?:, \d[^,]*)?secure", cookie)))
    panel = trial.curl("/wp-admin/media-new.php", *browser)
    links = set(re.findall(r"(https?)://localhost/", panel.text))
    trial.check(f"{label}: links of a page", (panel.status, links), (200, {"https"}))
    content = os.urandom(5 << 20).hex()
    (trial.folder / name).write_text(content)
    nonce = re.search(r'name="_wpnonce" value="([^"]+)"', panel.text)[1]
    trial.curl("/wp-admin/media-new.php", *browser, "-F", f"async-upload=@{trial.folder / name};type=text/plain", "-F", f"_wpnonce={nonce}",
               "-F", "html-upload=Upload")
    media = json.loads(trial.curl("/?rest_route=/wp/v2/media", version).text)
    stored = media[0]["source_url"].removeprefix("https://localhost") if media else "none"
    trial.check(f"{label}: 10 MiB are uploaded and downloaded", trial.curl(stored, *browser).text == content)
    trial.curl("/wp-comments-post.php", *browser, "-H", "X-Forwarded-For: 192.0.2.99", *encoded({"comment": f"by {label}", "comment_post_ID": "1"}))
    address = query(socket, f"SELECT comment_author_IP FROM wordpress.wp_comments WHERE comment_content = 'by {label}'")
    trial.check(f"{label}: a comment has the address of the client", address, CLIENT)


RECIPES = {
    "wordpress": (wordpress, "http/recipes-applications.md", "WordPress", ("Handfast", "nginx", "PHP", "WordPress", "MariaDB", "curl")),
}
