"""Simulators, agents and trainers on GMIs of their own (TDG and TDG_EX, paper section 5.1).

A trainer requests rollouts from its agent, an agent requests steps from its simulators. `RemoteTask` is a task on other
GMIs and `RemoteActor` an actor on another one, so actor, learner, replica and service are the same as where these roles
share a GMI.
"""
