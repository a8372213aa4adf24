"""Continuous collision detection: when do moving bodies first meet, and how far may they move?"""
