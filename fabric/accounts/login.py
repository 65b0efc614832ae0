"""The brake on guessing passwords, for the login page."""

from fabric.accounts.domain import LOGIN_WINDOW_S, LOGINS_PER_ADDRESS, LOGINS_PER_NAME
from fabric.core.ratelimit import forget_attempts, register_attempt


def register_login_attempt(*, username: str, address: str) -> int:
    """Count one attempt, before the password is looked at; return 0, or the seconds to wait where there were too many.

    Both the caller's address and the name tried are counted, so that neither many names from one address nor one
    name from many addresses goes unnoticed.
    """
    return max(
        register_attempt("login-address", address, limit=LOGINS_PER_ADDRESS, window_s=LOGIN_WINDOW_S),
        register_attempt("login-name", username.casefold(), limit=LOGINS_PER_NAME, window_s=LOGIN_WINDOW_S),
    )


def forget_login_attempts(*, username: str, address: str) -> None:
    """Call after a success: people who mistype now and then are not held up."""
    forget_attempts("login-address", address, window_s=LOGIN_WINDOW_S)
    forget_attempts("login-name", username.casefold(), window_s=LOGIN_WINDOW_S)
