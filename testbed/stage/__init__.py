"""What a plane needs that is neither real nor embedded: a folder for a run and the programs it starts, a
plain client to set up and look on with, and the product's three processes at work on a hub.
"""
