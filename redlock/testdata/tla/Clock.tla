---------------------------------- MODULE Clock ----------------------------------
(***************************************************************************)
(* Masters end keys by their wall clocks, proxies end leases by their own  *)
(* monotonic clocks. When may a proxy count a master's vote, so that a key *)
(* that has ended on the master belongs to a lease that is over?           *)
(*                                                                         *)
(* The rule: each proxy keeps readings of each master's clock, taken with  *)
(* every batch. A vote counts if, when its batch closes, the master's      *)
(* clock has gained no more than the tolerance on the proxy's, against     *)
(* every reading of the last max_ttl. A gain costs the master its votes at *)
(* this proxy, until it has watched the master anew for one max_ttl. A     *)
(* proxy that is new to a master counts its votes when it has watched it   *)
(* for one max_ttl, or when it vouches for it: its own wall clock and the  *)
(* master's are among a majority of {own wall clock, all masters} that     *)
(* agree. Leases are shorter than keys by the tolerance.                   *)
(*                                                                         *)
(* Time is in ticks of true time. A gain of a master's clock is a step of  *)
(* it, or what a fast rate adds up to. The allowance for drift is left     *)
(* out: it lengthens tolerances and shortens leases by the same amount.    *)
(* A proxy's monotonic clock may stand still for a tick while its machine  *)
(* is paused; it finds that out when it wakes up, before it does anything, *)
(* and takes the pause off its leases. Keys that no counted vote goes with *)
(* are left out: they only keep others out.                                *)
(*                                                                         *)
(* What the rule takes for granted is a constant, too, and TLC must find   *)
(* two holders without it: Skew, Behind, Common, Blind, PauseUnseen.          *)
(* Each CONSTANT named M... breaks one rule, likewise.                     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Masters, Proxies, Nobody,
  TTL,      \* of every lock, in ticks; it is max_ttl
  Tol,      \* the tolerance, in ticks
  MaxGain,  \* by how much clocks of masters go forward, in all
  MaxBack,  \* by how much they go back, in all
  MaxPause, \* for how many ticks proxies are paused, in all
  Vouch,    \* TRUE: proxies vouch
  Restarts, \* TRUE: proxies are replaced by new ones, which have read nothing
  Steppable,\* whose clocks may step: some masters, and proxies for their wall clocks
  Common,   \* TRUE: all of Steppable step together
  Skew,     \* up to this difference two wall clocks agree
  Behind,   \* the masters whose wall clocks begin one tick behind
  Blind,    \* TRUE: a clock may go both ways between two readings of a proxy
  PauseUnseen, \* TRUE: a paused proxy does not take the pause off its leases
  MNewest,     \* gains are measured against the newest reading only
  MNoTolerance,\* leases are as long as keys
  MForgets,    \* a new connection forgets the readings, and with them the gain
  MShort,      \* a gain costs votes for one tick less than max_ttl, as where a reading is as old as its question
  MEarly,      \* a vote is judged by a reading from before its command
  MNewCounts   \* a proxy that is new to a master counts its votes at once

Quorum == Cardinality(Masters) \div 2 + 1
Max(x, y) == IF x > y THEN x ELSE y

VARIABLES
  off,  \* wall clocks, of masters and proxies: their difference to true time
  key,  \* what a master holds: whose key, and the ticks that its clock leaves it
  ring, \* what proxy p has read of master m: for each age, by p's clock, how much m has gained since; TTL is "TTL or more"
  new,  \* the masters that a proxy may vouch for: it has seen no gain there
  att,  \* each proxy's attempt or lease
  went, \* which way a master's clock has gone since a proxy read it: 1 forward, -1 back, 0 neither
  used  \* how much of MaxGain, MaxBack, MaxPause
vars == <<off, key, ring, new, att, went, used>>

NoKey == [of |-> Nobody, left |-> 0]
Idle == [st |-> "idle", left |-> 0, votes |-> {}, early |-> {}]

Init ==
  /\ off = [x \in Masters \cup Proxies |-> IF x \in Behind THEN -1 ELSE 0]
  /\ key = [m \in Masters |-> NoKey]
  /\ ring = [p \in Proxies |-> [m \in Masters |-> {[age |-> TTL, gain |-> 0]}]]
  /\ new = [p \in Proxies |-> {}]
  /\ att = [p \in Proxies |-> Idle]
  /\ went = [p \in Proxies |-> [m \in Masters |-> 0]]
  /\ used = [gain |-> 0, back |-> 0, pause |-> 0]
---------------------------------------------------------------------------------
(* What a proxy makes of a reading of a master's clock. *)

Gained(p, m) ==
  \E r \in ring[p][m] : r.gain > Tol /\ (~MNewest \/ \A o \in ring[p][m] : o.age >= r.age)
Watched(p, m) == \E r \in ring[p][m] : r.age >= (IF MShort THEN TTL - 1 ELSE TTL)
Agree(x, y) == off[x] - off[y] \in -Skew..Skew
Vouched(p, m) ==
  /\ Vouch /\ m \in new[p] /\ Agree(p, m)
  /\ 2 * Cardinality({x \in Masters \cup {p} : Agree(x, m)}) > Cardinality(Masters) + 1
Good(p, m) == ~Gained(p, m) /\ (Watched(p, m) \/ Vouched(p, m) \/ (MNewCounts /\ m \in new[p]))

(* The new reading. Of two of one age the lower counts; where it shows a gain, nothing from before is kept. *)
Reading(p, m) ==
  LET now == {r \in ring[p][m] : r.age = 0}
      gain == IF MNewest \/ now = {} THEN 0 ELSE Max(0, (CHOOSE r \in now : TRUE).gain)
  IN IF Gained(p, m) THEN {[age |-> 0, gain |-> 0]} ELSE (ring[p][m] \ now) \cup {[age |-> 0, gain |-> gain]}
Reads(p, S) ==
  /\ ring' = [ring EXCEPT ![p] = [m \in Masters |-> IF m \in S THEN Reading(p, m) ELSE ring[p][m]]]
  /\ new' = [new EXCEPT ![p] = @ \ {m \in S : Gained(p, m)}]
  /\ went' = [went EXCEPT ![p] = [m \in Masters |-> IF m \in S THEN 0 ELSE went[p][m]]]

(* A heartbeat reads all masters. *)
Read(p) ==
  /\ Reads(p, Masters)
  /\ UNCHANGED <<off, key, att, used>>

(* A proxy is stopped, and another one started. It has read nothing. *)
Restart(p) ==
  /\ Restarts /\ att[p].st = "idle"
  /\ ring' = [ring EXCEPT ![p] = [m \in Masters |-> {}]]
  /\ new' = [new EXCEPT ![p] = Masters]
  /\ went' = [went EXCEPT ![p] = [m \in Masters |-> 0]]
  /\ UNCHANGED <<off, key, att, used>>

Reconnect(p, m) ==
  /\ MForgets
  /\ ring' = [ring EXCEPT ![p][m] = {[age |-> TTL, gain |-> 0]}]
  /\ UNCHANGED <<off, key, new, att, went, used>>
---------------------------------------------------------------------------------
(* Locks. *)

Begin(p) ==
  /\ att[p].st = "idle"
  /\ att' = [att EXCEPT ![p] = [st |-> "asks", left |-> IF MNoTolerance THEN TTL ELSE TTL - Tol, votes |-> {},
                                 early |-> IF MEarly THEN {m \in Masters : Good(p, m)} ELSE {}]]
  /\ IF MEarly THEN Reads(p, Masters) ELSE UNCHANGED <<ring, new, went>>
  /\ UNCHANGED <<off, key, used>>

(* The master sets the key, and its clock is read behind it. *)
Vote(p, m) ==
  LET votes == att[p].votes \cup {m} IN
  /\ att[p].st = "asks" /\ m \notin att[p].votes /\ key[m] = NoKey
  /\ IF MEarly THEN m \in att[p].early ELSE Good(p, m)
  /\ key' = [key EXCEPT ![m] = [of |-> p, left |-> TTL]]
  /\ att' = [att EXCEPT ![p].votes = votes, ![p].st = IF Cardinality(votes) >= Quorum THEN "holds" ELSE @]
  /\ Reads(p, {m})
  /\ UNCHANGED <<off, used>>
---------------------------------------------------------------------------------
(* Clocks. *)

Left(k, d) == IF k = NoKey \/ k.left - d <= 0 THEN NoKey ELSE [k EXCEPT !.left = @ - d]
Older(R) ==
  LET aged == {[r EXCEPT !.age = @ + 1] : r \in {x \in R : x.age < TTL}}
  IN aged \cup (IF \E r \in aged : r.age = TTL THEN {} ELSE {r \in R : r.age = TTL})
Gaining(R, d) == {[r EXCEPT !.gain = @ + d] : r \in R}

(* True time goes on. The clocks of the proxies P stand still: all masters gain on them. *)
Tick(P) ==
  /\ used.pause + Cardinality(P) <= MaxPause
  /\ used' = [used EXCEPT !.pause = @ + Cardinality(P)]
  /\ key' = [m \in Masters |-> Left(key[m], 1)]
  /\ att' = [p \in Proxies |-> IF p \in P /\ PauseUnseen THEN att[p]
                               ELSE IF att[p].left <= 1 THEN Idle ELSE [att[p] EXCEPT !.left = @ - 1]]
  /\ ring' = [p \in Proxies |-> [m \in Masters |-> IF p \in P THEN Gaining(ring[p][m], 1) ELSE Older(ring[p][m])]]
  /\ UNCHANGED <<off, new, went>>

MayGo(m, way) == Blind \/ \A p \in Proxies : went[p][m] # -way
Went(S, way) == [p \in Proxies |-> [m \in Masters |-> IF MaxBack > 0 /\ m \in S /\ ring[p][m] # {} THEN way ELSE went[p][m]]]

(* The clocks of S go forward by d. *)
Forward(S, d) ==
  /\ used.gain + d <= MaxGain
  /\ \A m \in S \cap Masters : MayGo(m, 1)
  /\ went' = Went(S, 1)
  /\ used' = [used EXCEPT !.gain = @ + d]
  /\ off' = [x \in Masters \cup Proxies |-> IF x \in S THEN off[x] + d ELSE off[x]]
  /\ key' = [m \in Masters |-> IF m \in S THEN Left(key[m], d) ELSE key[m]]
  /\ ring' = [p \in Proxies |-> [m \in Masters |-> IF m \in S THEN Gaining(ring[p][m], d) ELSE ring[p][m]]]
  /\ UNCHANGED <<new, att>>

Back(m) ==
  /\ used.back < MaxBack /\ MayGo(m, -1)
  /\ went' = Went({m}, -1)
  /\ used' = [used EXCEPT !.back = @ + 1]
  /\ off' = [off EXCEPT ![m] = @ - 1]
  /\ key' = [key EXCEPT ![m] = Left(@, -1)]
  /\ ring' = [p \in Proxies |-> [ring[p] EXCEPT ![m] = Gaining(@, -1)]]
  /\ UNCHANGED <<new, att>>

(* A key that would live longer than max_ttl is cut, by anybody, at any time. *)
Clamp(m) ==
  /\ key[m].left > TTL
  /\ key' = [key EXCEPT ![m].left = TTL]
  /\ UNCHANGED <<off, ring, new, att, went, used>>

Steps == IF Common THEN {Steppable} ELSE {{x} : x \in Steppable}
Next ==
  \/ \E P \in SUBSET Proxies : Tick(P)
  \/ \E S \in Steps, d \in 1..MaxGain : Forward(S, d)
  \/ \E m \in Masters : Back(m) \/ Clamp(m)
  \/ \E p \in Proxies : Read(p) \/ Restart(p) \/ Begin(p) \/ \E m \in Masters : Vote(p, m) \/ Reconnect(p, m)
Spec == Init /\ [][Next]_vars

MutualExclusion == Cardinality({p \in Proxies : att[p].st = "holds"}) <= 1
Alike == Masters \ Behind
Perms == UNION {Permutations(S) : S \in {Alike \cap Steppable, Alike \ Steppable, Proxies \cap Steppable, Proxies \ Steppable}}
==================================================================================
