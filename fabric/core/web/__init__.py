"""What pages of every app share: base views, tables, filters, forms, navigation, error mapping. Knows no domain."""
