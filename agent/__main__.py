"""`python -m agent`."""

import sys

from agent.service import main

sys.exit(main())
