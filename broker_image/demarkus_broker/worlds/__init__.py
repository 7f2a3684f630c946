"""The worlds behind the gateway.

directory  which worlds exist for a person           breaker    when to leave a world alone
grants     what the broker shows a world, cached     errors     why a world gave no answer
pool       verified QUIC connections to each         universe   directory, grants and pool put together
"""
