"""Roles that have a GMI of their own (TDG and TDG_EX, paper section 5.1): they ask each other for what they do.

A trainer asks its agent for rollouts, an agent its simulators for steps. `RemoteTask` is worlds on other GMIs and
`RemoteActor` an actor on another one, so actor, learner, replica and service are those of the templates whose roles
share a GMI.
"""
