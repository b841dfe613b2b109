"""The database: sealed rows, tombstones, receipts, intents. Only here and in custody is SQL spoken."""
