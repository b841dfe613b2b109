"""Receipts: content-free statements about acts that are done, screened, canonical and signed."""
