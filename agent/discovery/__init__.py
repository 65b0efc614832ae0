"""What this host is and what it draws: read from sysfs, procfs and DMI, without root and without tools.

Every fact is optional. A file that is missing, unreadable, empty or holds one of the many spellings of "nothing" is
None, never 0 and never an empty text.
"""

from agent.discovery.host import discover_host
from agent.discovery.rapl import RaplReader

__all__ = ["RaplReader", "discover_host"]
