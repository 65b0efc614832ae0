"""Who changed what, when and why. Rows are written by services, inside the transaction of the change they record."""
