"""A Flask application that guards nothing: `admin_flask.py PORT`. It answers ADMIN below /admin and OPEN elsewhere."""

import logging
import sys

import flask

app = flask.Flask(__name__)


@app.route("/admin", defaults={"rest": ""})
@app.route("/admin/", defaults={"rest": ""})
@app.route("/admin/<path:rest>")
def admin(rest):
    return "ADMIN"


@app.route("/", defaults={"rest": ""})
@app.route("/<path:rest>")
def other(rest):
    return "OPEN"


logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.run("127.0.0.1", int(sys.argv[1]), threaded=True)
