"""Lanes: a process for each site that copies to its level log what the site may have, and the quarantine lane.

The laws, tagged where they are upheld:

R1  Admission. A tuple reaches a level log if it is proven and its label is admitted at the site, and only then.
R2  Order. A level log is the admitted tuples in the order of (append time, topic, partition, offset): a function of
    these tuples alone. Nothing is lost, doubled or altered; lanes agree; a log can be built again byte by byte from
    inputs that are all kept.
R3  Shape. Transactions are cut at a number of admitted tuples or bytes, or at the end of a bucket of append time.
    Progress over what was skipped goes to `lane.<site>` in transactions of its own.
R4  Isolation. Lanes share nothing. A lane reads no topic of which its site can admit nothing.
R5  Proof. Source, stream, strength, key, label within range and above the floor, evidence, fresh sequence.
R6  Policy in time. A tuple is judged by the policy of its append time. What the login authority did not sign is
    ignored and audited.
R7  Silence. What is not admitted never shows at the site. Refused tuples go to `quarantine`, at system high.
R8  Failure. Fence, then read the state, then seek. State missing beside a log that is not empty: no start. A fence
    or epoch error ends the process; after any other error of the cluster everything is opened anew.
"""
