"""Who enforces: enrolment, credentials, heartbeat, desired against observed state, and the client that pushes."""
