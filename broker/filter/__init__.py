"""Memberships behind one interface: which subscriptions' neighborhoods hold an entity."""
