"""Mark over QUIC: the port that services are written against, and the engines behind it.

port.py   what an engine offers and asks (Listener, Handler, Limits, Certificate) and how a transport fails
"""
