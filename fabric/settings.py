"""Composition root: names the parts and wires them. Values come from `fabric.env`, with embedded defaults."""

import os
import secrets
from pathlib import Path
from typing import Any

import dj_database_url
from csp.constants import NONCE, NONE, SELF

from fabric.env import BASE_DIR, SettingsError, load_env, socket_dir

ENV = load_env()
HOME = ENV.home.expanduser().resolve()
SECRETS_DIR = HOME / "secrets"
LOG_DIR = HOME / "log"
RUN_DIR = HOME / "run"


def _secret(name: str) -> str:
    """Return the secret kept in the home directory under `name`, making it (0600) at first use."""
    try:
        return _kept_secret(SECRETS_DIR / name)
    except OSError as error:
        raise SettingsError(f"{error.filename or HOME}: {error.strerror}: make room there or set FABRIC_HOME") from None


def _kept_secret(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    SECRETS_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
    try:
        os.link(temporary, path)  # atomic: of two processes that start together, one makes the secret and both read it
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return path.read_text().strip()


def _secret_key() -> str:
    if ENV.secret_key_file:
        return ENV.secret_key_file.read_text().strip()
    if ENV.secret_key:
        return ENV.secret_key.get_secret_value()
    return _secret("django_secret_key")


SECRET_KEY = _secret_key()
TOKEN_PEPPERS = {"1": _secret("token_pepper_1")}
TOKEN_PEPPER_CURRENT = "1"  # noqa: S105 a number, not the pepper
FIELD_ENCRYPTION_KEYS = {"1": _secret("field_key_1")}
FIELD_ENCRYPTION_CURRENT = "1"

DEBUG = ENV.debug
TLS = bool(ENV.tls_cert_file) or ENV.behind_tls_proxy
PUBLIC_URL = ENV.public_url.rstrip("/") or f"{'https' if TLS else 'http'}://{ENV.host}:{ENV.port}"
ALLOWED_HOSTS = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    ENV.host,
    *ENV.allowed_hosts,
    PUBLIC_URL.split("://")[1].split(":")[0],
]
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_tables2",
    "django_htmx",
    "csp",
    "fabric.core",
    "fabric.audit",
    "fabric.accounts",
    "fabric.inventory",
    "fabric.pools",
    "fabric.agents",
    "fabric.policies",
    "fabric.rollouts",
    "fabric.launch",
    "telemetry",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "fabric.core.middleware.RequestIdMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "fabric.urls"
ASGI_APPLICATION = "fabric.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "fabric.core.context_processors.shell",
            ],
        },
    },
]

# --- stores ----------------------------------------------------------------------------------------------------------

_SQLITE_OPTIONS: dict[str, Any] = {
    "timeout": 20,
    # Writers queue from the start of their transaction; a deferred one would fail at once when it upgrades.
    "transaction_mode": "IMMEDIATE",
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000; PRAGMA foreign_keys=ON;"
    ),
}
_database: Any = dj_database_url.parse(ENV.database_url or f"sqlite:///{HOME / 'db.sqlite3'}")
if _database["ENGINE"].endswith("sqlite3"):
    _database["OPTIONS"] = _SQLITE_OPTIONS
else:
    _database |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_SOCKET = socket_dir(RUN_DIR) / "redis.sock"
REDIS_URL = ENV.redis_url or f"unix://{REDIS_SOCKET}"
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # the sweeper does it better: a poison task would loop for ever
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_TIME_LIMIT = 55
CELERY_TASK_SOFT_TIME_LIMIT = 45
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 5
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_BEAT_SCHEDULE_FILENAME = str(RUN_DIR / "celerybeat-schedule")
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "rollouts.sweep": {
        "task": "fabric.rollouts.tasks.sweep_rollouts",
        "schedule": ENV.rollout_sweep_interval_s,
        "options": {"expires": 10},
    },
    "agents.housekeeping": {"task": "fabric.agents.tasks.purge_expired", "schedule": 60.0, "options": {"expires": 50}},
    "telemetry.rollup": {"task": "telemetry.tasks.roll_up", "schedule": 10.0, "options": {"expires": 9}},
}

CHANNEL_LAYERS: dict[str, Any] = {}  # live frames do not go through a channel layer: see telemetry.live

# --- people and doors ------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
_prefix = "__Host-" if TLS else ""
SESSION_COOKIE_NAME = f"{_prefix}fabric_session"
CSRF_COOKIE_NAME = f"{_prefix}fabric_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if TLS:
    SECURE_HSTS_SECONDS = 365 * 86400
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SECURE_SSL_REDIRECT = ENV.behind_tls_proxy
if ENV.behind_tls_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        "style-src-attr": [
            "'unsafe-inline'"
        ],  # Plotly writes style attributes on its own SVG; no element styles are allowed
        "connect-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "fabric.accounts.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["fabric.accounts.permissions.RolePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "fabric.core.api.PageNumberPagination",
    "PAGE_SIZE": 50,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "fabric.core.api.problem_handler",
    "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.UserRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {"user": ENV.api_rate_limit, "login": "10/min", "enroll": "60/min"},
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Context Memory Fabric",
    "DESCRIPTION": "Control plane of KV-cache memory: inventory, pools, agents, policies, rollouts, live telemetry.",
    "VERSION": "0.1.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "RolloutStateEnum": "fabric.rollouts.domain.RolloutState",
        "RolloutTargetStateEnum": "fabric.rollouts.domain.TargetState",
        "AgentStateEnum": "fabric.agents.models.AgentState",
        "TargetKindEnum": "telemetry.models.TargetKind",
        "TierEnum": [("dram", "dram"), ("flash", "flash")],
    },
}

# --- the rest --------------------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = ENV.time_zone
USE_I18N = USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "telemetry.figures.plotly_static.PlotlyFinder",
]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
DJANGO_TABLES2_TEMPLATE = "components/table.html"
METRIC_SOURCE = "telemetry.gates.SeriesMetricSource"

# Rate limits must work with Redis down: counters per process, so that N web processes make a limit N times as wide.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    "loggers": {"httpx": {"level": "WARNING"}, "aiohttp.access": {"level": "WARNING"}},
}
