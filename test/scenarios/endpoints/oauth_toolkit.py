# Django OAuth Toolkit, and an API that it protects: python3 oauth_toolkit.py SECRET CLIENT…
# Prints its URL, and ends with its stdin.
import os
import sys
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import include, path

secret, *clients = sys.argv[1:]
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    # It redirects a path without its final slash.
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="made-up",
    USE_TZ=True,
)
django.setup()

from oauth2_provider.decorators import protected_resource  # noqa: E402
from oauth2_provider.models import Application  # noqa: E402

urlpatterns = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")),
    path("api/orders", protected_resource()(lambda request: HttpResponse())),
]


class Silent(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_stdin, daemon=True).start()
call_command("migrate", verbosity=0)
for client in clients:
    Application.objects.create(
        client_id=client,
        client_secret=secret,
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
    )
server = make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Silent)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
