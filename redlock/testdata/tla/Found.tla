---------------------------------- MODULE Found ----------------------------------
(***************************************************************************)
(* A founding: no quorum of the memories that the record lists is left, so *)
(* a proxy lists the memories that it finds at the addresses, and those    *)
(* choose the new record themselves. No protocol among memories can tell a *)
(* dead one from one that is elsewhere. So a founding trusts that names    *)
(* come to mean the same for all: every proxy dials each address again at  *)
(* least every L ticks, and counts no vote of a memory that it last found  *)
(* there longer ago.                                                       *)
(*                                                                         *)
(* Each seat has an old memory <<s, 0>>, which the first record lists, and *)
(* may change to <<s, 1>>: because the process has forgotten, which proves *)
(* that the old memory is dead; or because the address shows another       *)
(* process, and the old one may live. Everybody who dials from then on     *)
(* finds the new one. That may forget, too: <<s, 2>>.                      *)
(*                                                                         *)
(* Votes of the memories that it does not find count for L after a         *)
(* founding. So it waits for max_ttl and L. It also takes over the wait of *)
(* the record that it is made from, where that is longer: locks of before  *)
(* that record may need it. L is not added to a wait, because what that is *)
(* longer for than max_ttl may be an earlier founding's L. Nor is L left   *)
(* out where that is longer than max_ttl, or where a quorum of seats has   *)
(* proved that the memories which the record lists there are dead: it may  *)
(* have a child, which lists others, and of which the founder knows        *)
(* nothing.                                                                *)
(*                                                                         *)
(* Chosen records are numbered in the order in which they were chosen. A   *)
(* step is one action, as in Change.tla. Beside the founding, strict steps *)
(* go on: a reseat as a learner, and its promotion; max_ttl up and down,   *)
(* the wait down; and several proxies found, from any record that they     *)
(* know. A step that raises max_ttl goes over connections that were dialled*)
(* now, and a founder knows of it: Ceiling.tla has what sees to that.      *)
(*                                                                         *)
(* What is allowed beyond what the code does, when attempts end, and which *)
(* keys are left out: as in Change.tla.                                    *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule, and Split and Ignorant what   *)
(* is taken for granted.                                                   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Seats, Proxies, Nobody,
  L,          \* ticks for which a proxy goes on counting votes of a memory that its address does not show any more
  MaxRecords, \* records that are chosen, in all
  Reseated,   \* seats that have forgotten, and that a second record, which few know yet, has reseated; {}: there is no such record
  Reseats,    \* TRUE: strict steps reseat
  MaxFounds,  \* foundings, in all
  Times,      \* what strict steps do to max_ttl and the wait: a subset of {"raise", "lower", "lowerWait"}
  TTL, Wait,  \* max_ttl and the wait of the first record, in ticks; the wait is longer after a founding
  LongTTL,    \* the longest max_ttl; the shortest is 1
  Switchable, \* the seats whose memory changes
  Twice,      \* those of them whose new memory forgets
  Split,      \* the proxies for which the names go on to mean the old memories for ever
  MNoCheck,   \* votes count however long ago the address was dialled
  Ignorant,   \* TRUE: a founder need not know that max_ttl was raised
  MNoExtra,   \* a founding waits no longer than a step
  MNoWait,    \* … or not at all
  MNotHanded, \* a founding does not take over the wait of the record that it is made from
  MAddsUp,    \* … adds L to that wait, whatever is in it
  MLonger,    \* … waits no longer where that is longer than max_ttl, and max_ttl was not lowered since the founding
  MProved     \* … waits no longer where a quorum of the memories that its record lists is dead

Quorum == Cardinality(Seats) \div 2 + 1
Gone == 3 \* the memory of a vacant seat
Mems == Seats \X {0, 1, 2}

VARIABLES
  recs, \* the chosen records: lineage, its version there, max_ttl, the wait, since which version max_ttl is no longer; memory and vote of each seat (k = Gone: vacant)
  age,  \* ticks since each was chosen
  rec,  \* which record each memory shows; 0: none
  now,  \* for each seat: the memory that its address shows, how that came to be another than the old one, and how long ago
  key,
  att   \* each proxy's attempt or lease: the record of its round, and the ticks that are left of its max_ttl
vars == <<recs, age, rec, now, key, att>>

Idle == [st |-> "idle", r |-> 0, left |-> 0]
Most == LongTTL + L \* nothing waits for longer
Max(x, y) == IF x > y THEN x ELSE y
Vacant == [k |-> Gone, ok |-> FALSE, since |-> 0]
First == [lin |-> 0, v |-> 1, ttl |-> TTL, wait |-> Wait, ttlSince |-> 1, seat |-> [s \in Seats |-> [k |-> 0, ok |-> TRUE, since |-> 1]]]
Second == [First EXCEPT !.v = 2, !.seat = [s \in Seats |-> IF s \in Reseated THEN [k |-> 1, ok |-> FALSE, since |-> 2] ELSE @[s]]]
Init ==
  /\ recs = IF Reseated = {} THEN <<First>> ELSE <<First, Second>>
  /\ age = IF Reseated = {} THEN <<Most>> ELSE <<Most, 0>> \* nothing waits for the first
  /\ rec = [m \in Mems |-> IF m[2] # 0 THEN 0 ELSE IF m[1] \in Reseated THEN 1 ELSE Len(recs)]
  /\ now = [s \in Seats |-> IF s \in Reseated THEN [k |-> 1, how |-> "forgot", ago |-> L + 1] ELSE [k |-> 0, how |-> "", ago |-> 0]]
  /\ key = [m \in Mems |-> Nobody]
  /\ att = [p \in Proxies |-> Idle]
---------------------------------------------------------------------------------
\* code: none: a master forgets, or a name comes to mean another one
Switch(s, how) ==
  /\ now[s].k = 0 /\ s \in Switchable
  /\ now' = [now EXCEPT ![s] = [k |-> 1, how |-> how, ago |-> 0]]
  /\ UNCHANGED <<recs, age, rec, key, att>>
\* code: none: a master forgets once more
Forget(s) ==
  /\ now[s].k = 1 /\ s \in Twice
  /\ now' = [now EXCEPT ![s].k = 2]
  /\ UNCHANGED <<recs, age, rec, key, att>>

Listed(i) == {<<s, recs[i].seat[s].k>> : s \in {x \in Seats : recs[i].seat[x].k # Gone}}
Votes(i) == {<<s, recs[i].seat[s].k>> : s \in {x \in Seats : recs[i].seat[x].ok}}
Dead(m) == m[2] < now[m[1]].k /\ (m[2] = 1 \/ now[m[1]].how = "forgot")
Older(i, m) == rec[m] # 0 /\ recs[rec[m]].lin = recs[i].lin /\ recs[rec[m]].v <= recs[i].v
Last(i) == \A j \in 1..Len(recs) : recs[j].lin = recs[i].lin => recs[j].v <= recs[i].v

Add(R, S) ==
  /\ recs' = Append(recs, R)
  /\ age' = Append(age, 0)
  /\ rec' = [m \in Mems |-> IF m \in S THEN Len(recs) + 1 ELSE rec[m]]
  /\ UNCHANGED <<now, key, att>>

(* A step within a lineage, chosen by a quorum of the memories that the last record lists. *)
Waited(i, since) == LET c == CHOOSE c \in 1..Len(recs) : recs[c].lin = recs[i].lin /\ recs[c].v = since
                    IN age[c] >= recs[i].wait
\* code: member.Situation.Next, member.CheckChild, survey.Masters.Step; trace: RecordTrace
Strict ==
  /\ Len(recs) < MaxRecords
  /\ \E i \in 1..Len(recs), S \in SUBSET Seats :
       LET R == recs[i]
           child == [R EXCEPT !.v = @ + 1]
           learners == {s \in Seats : R.seat[s].k # Gone /\ ~R.seat[s].ok /\ (MNoWait \/ Waited(i, R.seat[s].since))}
           promoted == [s \in Seats |-> IF s \in learners THEN [R.seat[s] EXCEPT !.ok = TRUE] ELSE R.seat[s]]
           lowest == IF "lowerWait" \in Times /\ Waited(i, R.ttlSince) THEN R.ttl ELSE R.wait
           by == {m \in Listed(i) : m[1] \in S /\ ~Dead(m) /\ (Older(i, m) \/ rec[m] = 0)}
       IN /\ Last(i) /\ Cardinality(S) = Quorum /\ Cardinality(by) = Quorum
          /\ \/ \E s \in Seats :
                  /\ Reseats /\ now[s].k # R.seat[s].k
                  /\ Add([child EXCEPT !.seat[s] = [k |-> now[s].k, ok |-> FALSE, since |-> R.v + 1]], by)
             \/ \E w \in {R.wait, lowest} : (learners # {} \/ w # R.wait) /\ Add([child EXCEPT !.seat = promoted, !.wait = w], by)
             \/ \E t \in 1..LongTTL :
                  /\ (t < R.ttl /\ "lower" \in Times) \/ (t > R.ttl /\ "raise" \in Times)
                  /\ t > R.ttl => \A m \in by : m[2] = now[m[1]].k
                  /\ Add([child EXCEPT !.ttl = t, !.wait = Max(@, t), !.ttlSince = IF t < R.ttl THEN R.v + 1 ELSE @], by)

(* A founding by a proxy that knows record i and reaches the seats S. *)
\* code: coordinator.Coordinator.found, member.Survey.Founding, member.FoundingToPropose, survey.Masters.Step; trace: RecordTrace
Found ==
  /\ Len(recs) < MaxRecords /\ Cardinality({recs[i].lin : i \in 1..Len(recs)}) <= MaxFounds
  /\ \E i \in 1..Len(recs), S \in SUBSET Seats, B \in SUBSET Seats :
       LET found == {<<s, now[s].k>> : s \in S}
           by == {m \in found : m[1] \in B}
           dead == {m \in Listed(i) : m[1] \in S /\ Dead(m)}
           R == recs[i]
           hasIt == MNoExtra \/ (MLonger /\ R.wait > R.ttl /\ R.ttlSince = 1) \/ (MProved /\ Cardinality(dead) >= Quorum)
           own == R.ttl + (IF hasIt THEN 0 ELSE L)
           handed == IF MNotHanded THEN 0 ELSE R.wait + (IF MAddsUp THEN L ELSE 0)
           F == [lin |-> Len(recs), v |-> 1, ttl |-> R.ttl, wait |-> Max(own, handed), ttlSince |-> 1,
                 seat |-> [s \in Seats |-> IF s \notin S THEN Vacant
                                           ELSE [k |-> now[s].k, ok |-> FALSE, since |-> 1]]]
       IN /\ B \subseteq S
          /\ Ignorant \/ \A j \in i + 1..Len(recs) : recs[j].ttl <= R.ttl
          /\ \A m \in found : rec[m] = 0 \/ Older(i, m)
          /\ Cardinality(found \cap Listed(i)) < Quorum
          /\ Cardinality(by) = Quorum
          /\ Add(F, by)

(* A listed memory is told a newer record of its lineage, or its first one. *)
\* code: survey.Masters.Teach, lua/learn.lua; trace: RecordTrace
Learn(m) ==
  /\ \E i \in 1..Len(recs) :
       /\ m \in Listed(i)
       /\ IF rec[m] = 0 THEN TRUE ELSE recs[rec[m]].lin = recs[i].lin /\ recs[rec[m]].v < recs[i].v
       /\ rec' = [rec EXCEPT ![m] = i]
  /\ ~Dead(m)
  /\ UNCHANGED <<recs, age, now, key, att>>
---------------------------------------------------------------------------------
(* The memory is the one that proxy p has found at its address at most L ago. *)
Checked(p, m) ==
  LET n == now[m[1]] IN
  IF m[2] > 0 THEN n.k = m[2] /\ p \notin Split ELSE n.k = 0 \/ (n.how = "other" /\ (n.ago <= L \/ MNoCheck \/ p \in Split))

\* code: rounds.launch
Begin(p) ==
  /\ att[p].st = "idle"
  /\ \E i \in 1..Len(recs) : Cardinality(Votes(i)) >= Quorum /\ att' = [att EXCEPT ![p] = [st |-> "asks", r |-> i, left |-> recs[i].ttl]]
  /\ UNCHANGED <<recs, age, rec, now, key>>

\* code: lane.confirm, guard.unconfirmed, member.RecheckWithin, guard.judgeMemory
Vote(p, m) ==
  LET mine == {x \in Mems : key[x] = p} \cup {m} IN
  /\ att[p].st = "asks" /\ m \in Votes(att[p].r) /\ rec[m] = att[p].r /\ Checked(p, m) /\ key[m] = Nobody
  /\ key' = [key EXCEPT ![m] = p]
  /\ att' = IF Cardinality(mine) >= Quorum THEN [att EXCEPT ![p].st = "holds"] ELSE att
  /\ UNCHANGED <<recs, age, rec, now>>

(* Time passes for all. An attempt ends with its max_ttl, whatever came of it. *)
\* code: none: time passes
Tick ==
  /\ age' = [i \in 1..Len(recs) |-> IF age[i] < Most THEN age[i] + 1 ELSE age[i]]
  /\ now' = [s \in Seats |-> IF now[s].k > 0 /\ now[s].ago <= L THEN [now[s] EXCEPT !.ago = @ + 1] ELSE now[s]]
  /\ att' = [p \in Proxies |-> IF att[p].left <= 1 THEN Idle ELSE [att[p] EXCEPT !.left = @ - 1]]
  /\ key' = [m \in Mems |-> IF key[m] # Nobody /\ att[key[m]].left <= 1 THEN Nobody ELSE key[m]]
  /\ UNCHANGED <<recs, rec>>

Next ==
  \/ Tick \/ Strict \/ Found
  \/ \E s \in Seats : Switch(s, "forgot") \/ Switch(s, "other") \/ Forget(s)
  \/ \E m \in Mems : Learn(m)
  \/ \E p \in Proxies : Begin(p) \/ \E m \in Mems : Vote(p, m)
Spec == Init /\ [][Next]_vars

MutualExclusion == Cardinality({p \in Proxies : att[p].st = "holds"}) <= 1
(* However many foundings follow each other, the wait is not longer than one max_ttl and L need, or than the first one was. *)
NotAddedUp == \A i \in 1..Len(recs) : recs[i].wait <= Max(Wait, LongTTL + L)
Perms == UNION {Permutations(S \ Reseated) : S \in {Switchable \cap Twice, Switchable \ Twice, Seats \ Switchable, Split, Proxies \ Split}}
==================================================================================
