"""The supervisor with real children, pre-flight checks, bootstrap, and a whole fabric started and stopped."""
