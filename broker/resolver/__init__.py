"""The live resolver: processes beside the broker that resolve new subscriptions."""
