"""What the reconcilers would write, without a write: for `demarkus render` and `demarkus plan`.

stage      the port over what a cluster has (or over nothing), on which every write stays a thought
steps      what was written there, as steps that people can read
play       the reconcilers on a stage, until they have nothing left to do
blank      generated material, taken out of what is shown
"""
