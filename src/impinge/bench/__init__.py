"""Measurements that anybody can repeat: ``impinge bench``."""
