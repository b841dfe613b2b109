"""python -m shomei_memory_verify."""

from shomei_memory_verify.cli import main

raise SystemExit(main())
