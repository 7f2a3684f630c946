"""The authorization server: people sign in at the company's provider, clients get tokens for this gateway.

Pure: errors (the RFCs' codes), parameters (forms and queries), redirects (where people may be sent), pkce, resources
(which resource is meant), scopes, clients (who they are, how they show it), registration (what they may register),
requests (authorization requests judged), tokens (access tokens), metadata (the document), seals (what browsers keep),
id_tokens (the provider's), pages (HTML), pace (how often devices ask).
Outward: outbound (requests that the gateway makes), provider (OpenID Connect), documents (clients that are URLs).
Endpoints: server (what they share), answers, authorize, callback, token, renewal (the provider asked anew), device,
register, revoke; routes (all of them).
Process: service (store, connections, provider, sweep).
"""
