"""The live resolver: helper processes of the broker that resolve new subscriptions."""
