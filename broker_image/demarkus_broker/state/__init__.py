"""What has to outlive a process (codes, devices, logins, registrations) as facts that are created once, never changed.

Everything is a create of a name that must be free, so replicas need no lock and no compare-and-swap: of several that
use one code, exactly one creates `codes/<name>/used`. A name carries its expiry, so the sweep only lists and deletes.

    codes/<name>/issued, used              an authorization code; who used it
    devices/<name>/asked, decision, collected; usercodes/<hash>/<name>
    people/<label>/<name>                  the logins of a person
    logins/<name>/began, ended, <n>-<lane> a login, and its refresh tokens (only their hashes)
    logins/<name>/claim-<n>-<time>, check-<n>  who asks the provider anew about the person; what it said
    registrations/<client id>              a client that registered itself
    sweeps/<name>                          who sweeps in an interval

Pure: names (of facts, tokens and codes), rotation (what a presented refresh token leads to).
Over the four blob calls: facts (create, read, list, delete), codes, devices, logins, registrations, sweep.
A driver: kubernetes (facts as Secrets).
"""
