----------------------------------- MODULE Step -----------------------------------
(***************************************************************************)
(* One step of the membership record: which child of one record is chosen, *)
(* when several proxies propose different ones.                            *)
(*                                                                         *)
(* It is single-decree Paxos. The acceptors are the memories that the      *)
(* parent lists. A proposer takes a ballot, and prepares it on a quorum:   *)
(* each memory promises to accept nothing with a lower ballot, and says    *)
(* what it has accepted. The proposer takes the accepted child of the      *)
(* highest ballot among those that can have been chosen: the memories that *)
(* say that they have accepted it, and those that have not answered, are a *)
(* quorum. If there is none, it takes its own. The child is chosen when    *)
(* a quorum has accepted it with one ballot.                               *)
(*                                                                         *)
(* Messages stay on their way for as long as they like: m1 and m2 only     *)
(* grow. A memory that dies (amnesia) says nothing more; the one that      *)
(* follows it is not listed. Ballots are never used twice.                 *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two children.   *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Memories, \* those that the parent lists
  Children, None,
  Ballots,  \* numbers from 1
  MaxDeaths,
  MNoPromise, \* a memory accepts a ballot lower than the one it has promised
  MAnyChild,  \* a proposer proposes its own child, whatever was accepted
  MApart,     \* … one that some have accepted with different ballots is taken for several children
  MNoSilent,  \* … those that have not answered are taken not to have accepted it
  MTwoBallots,\* acceptances of one child with different ballots are counted together
  MRevives    \* a memory that has forgotten what it promised and accepted goes on as the one that is listed

Quorum == Cardinality(Memories) \div 2 + 1

VARIABLES
  promised, \* the highest ballot that a memory has promised
  accepted, \* the child that it has accepted last, and with which ballot
  dead,
  m1,       \* replies to prepare
  m2,       \* who has accepted which ballot
  proposed  \* the child of each ballot
vars == <<promised, accepted, dead, m1, m2, proposed>>

Nothing == [ballot |-> 0, child |-> None]
Init ==
  /\ promised = [x \in Memories |-> 0]
  /\ accepted = [x \in Memories |-> Nothing]
  /\ dead = {} /\ m1 = {} /\ m2 = {}
  /\ proposed = [b \in Ballots |-> None]

\* code: none: a memory is gone
Die(x) ==
  /\ Cardinality(dead) < MaxDeaths /\ x \notin dead
  /\ dead' = dead \cup {x}
  /\ IF MRevives THEN promised' = [promised EXCEPT ![x] = 0] /\ accepted' = [accepted EXCEPT ![x] = Nothing]
     ELSE UNCHANGED <<promised, accepted>>
  /\ UNCHANGED <<m1, m2, proposed>>
Alive(x) == MRevives \/ x \notin dead

\* code: survey.Masters.Step, lua/prepare.lua; trace: RecordTrace
Prepare(x, b) ==
  /\ Alive(x) /\ b > promised[x]
  /\ promised' = [promised EXCEPT ![x] = b]
  /\ m1' = m1 \cup {[x |-> x, b |-> b, a |-> accepted[x]]}
  /\ UNCHANGED <<accepted, dead, m2, proposed>>

\* code: survey.Masters.Step, member.ChildToPropose, member.FoundingToPropose; trace: RecordTrace
Propose(b) ==
  LET replies == {m \in m1 : m.b = b}
      with(y) == {m \in replies : m.a.child = y.child /\ (MApart => m.a.ballot = y.ballot)}
      silent == IF MNoSilent THEN 0 ELSE Cardinality(Memories) - Cardinality(replies)
      can == {y \in {m.a : m \in replies} : y.ballot > 0 /\ Cardinality(with(y)) + silent >= Quorum}
  IN /\ proposed[b] = None
     /\ Cardinality(replies) >= Quorum \* each memory replies to a ballot once
     /\ \E ch \in Children :
          /\ \/ MAnyChild
             \/ can = {}
             \/ \E y \in can : y.child = ch /\ \A z \in can : z.ballot <= y.ballot
          /\ proposed' = [proposed EXCEPT ![b] = ch]
     /\ UNCHANGED <<promised, accepted, dead, m1, m2>>

\* code: survey.Masters.Step, lua/accept.lua; trace: RecordTrace
Accept(x, b) ==
  /\ Alive(x) /\ proposed[b] # None
  /\ MNoPromise \/ promised[x] <= b
  /\ [x |-> x, b |-> b] \notin m2
  /\ promised' = [promised EXCEPT ![x] = IF @ > b THEN @ ELSE b]
  /\ accepted' = [accepted EXCEPT ![x] = [ballot |-> b, child |-> proposed[b]]]
  /\ m2' = m2 \cup {[x |-> x, b |-> b]}
  /\ UNCHANGED <<dead, m1, proposed>>

Next ==
  \/ \E x \in Memories : Die(x) \/ \E b \in Ballots : Prepare(x, b) \/ Accept(x, b)
  \/ \E b \in Ballots : Propose(b)
Spec == Init /\ [][Next]_vars

By(b) == {m.x : m \in {y \in m2 : y.b = b}}
Chosen(ch) ==
  \/ \E b \in Ballots : proposed[b] = ch /\ Cardinality(By(b)) >= Quorum
  \/ MTwoBallots /\ Cardinality(UNION {By(b) : b \in {y \in Ballots : proposed[y] = ch}}) >= Quorum
OneChild == \A x, y \in Children : Chosen(x) /\ Chosen(y) => x = y
Perms == Permutations(Memories) \cup Permutations(Children)
====================================================================================
