---------------------------------- MODULE Copy ----------------------------------
(***************************************************************************)
(* Recovery by copying: a memory m that has forgotten is listed anew as a  *)
(* learner. It becomes a voter without a wait when it has been given what  *)
(* a quorum of voters holds.                                               *)
(*                                                                         *)
(* A copy of m is made under a record R that lists m as a learner. Its     *)
(* sources are Q voters of R. Each reading of a source is one command for  *)
(* one key; it counts where the memory is the one that R lists, and shows, *)
(* as settled, R or a later record: no vote under an earlier record can    *)
(* count there any more.                                                   *)
(* 1. Key by key: m is read, then each source. Do all sources that hold    *)
(*    the key hold the same value, m gets it with the largest of the ends, *)
(*    whatever m held before. Where m holds that value its end is not      *)
(*    brought nearer. Does none hold the key, what m held is deleted there.*)
(*    Do they differ, the key is read again, or m gets a value that nobody *)
(*    owns: the sentinel.                                                  *)
(* 2. After the last key each is read once more: a value of m that no      *)
(*    source holds any more is deleted there. The sentinel stays.          *)
(* 3. m becomes a voter by a step from the newest record, if all that is   *)
(*    done, m is a learner of the newest record, and each source still a   *)
(*    voter of it. m takes over the highest fence that a source has        *)
(*    accepted.                                                            *)
(* m is written to, or deleted from, only where it shows, in the same      *)
(* command, R or a later record, and that record lists it as a learner:    *)
(* so a slow copier does no harm when another one has made m a voter.      *)
(*                                                                         *)
(* A vote counts where the memory shows exactly the record of the round as *)
(* settled, and that record lists it as a voter: Members.tla. The chosen   *)
(* records are one chain, and a step is one action: a quorum of the        *)
(* memories that the last record lists go on to the child. Others learn of *)
(* it at any time later, or never. A memory that has accepted a child and  *)
(* has not settled on it is here one that still votes, or can be read      *)
(* already: that allows more.                                              *)
(*                                                                         *)
(* Memories have names of their own; a spare takes the place of another    *)
(* one. The other may go on, as behind the move of a name, and no action   *)
(* of a memory has to happen: one that has forgotten is one that does      *)
(* nothing any more.                                                       *)
(*                                                                         *)
(* Also allowing more than the code does: a copier begins under any record *)
(* that has listed m as a learner, also when m is a voter already; it      *)
(* begins anew, and reads a key anew, at any time; a SET is executed any   *)
(* number of times, by any memory, also long after its round; a round is   *)
(* of the record under which its first vote counts; time that passes       *)
(* between a reading and what is written by it takes of the end: no code   *)
(* writes an end that is nearer.                                           *)
(*                                                                         *)
(* Ends: a Tick is one unit of TTLs. A lease is valid until its holder     *)
(* releases it (the first Delete), or its ticks are over, which count from *)
(* the first SET that was executed, or the first EXTEND that counts. A     *)
(* round that has failed is one of which a key is deleted, or that does    *)
(* nothing any more.                                                       *)
(*                                                                         *)
(* What one key is copied from and to depends on no other key, so one key  *)
(* is modelled, and two in one run. The wait is left out: nobody becomes a *)
(* voter by it here. So are clocks, readers, and values that change        *)
(* (hashes, sets): a value is one token.                                   *)
(*                                                                         *)
(* Each CONSTANT named M... breaks one rule: TLC must find two holders, or *)
(* a grant with a fence that is no greater than those before it.           *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  First,     \* the memories of the first record, all of them voters
  Spares,    \* those that take the place of others
  Goes,      \* those whose place may be taken
  Copiers,
  Tokens,    \* of the first key; each is one round
  Tokens2,   \* of the second key; {}: there is one key
  Nobody,    \* the value of a key that does not exist
  Sentinel,
  MaxVersion,\* versions of the record, from 1
  Losses,    \* how many seats may have no vote at once
  Late,      \* the tokens whose SET and EXTEND are also executed where they do not count
  Ticks,     \* TRUE: time passes
  TTL,       \* of a key and its lease, in ticks
  Longer,    \* … when EXTEND has been executed; 0: there is no EXTEND
  Fences,    \* those that rounds may have, from 1; {}: there are none
  Compares,  \* FALSE: what m holds is not compared when it is written or deleted: that is not needed
  SourcesStay,  \* FALSE: sources need not be voters any more when m becomes one: that is not needed
  MNotLeft,     \* a source is read before it has left earlier records
  MMinority,    \* a source less
  MLearnerSource,\* a source may be a learner
  MSourcesForget,\* what has taken the place of a source is read in its stead
  MSmallerEnd,  \* m gets the smallest end
  MOneOfTwo,    \* m gets one of two values
  MOnlyAbsent,  \* m gets a value only where it holds none
  MBeforeLast,  \* m becomes a voter while a source has not been read for the last key
  MSentinelGoes,\* the sentinel is deleted because no source holds it
  MLateWrite,   \* m is written to when it is a voter
  MLateDelete,  \* … deleted from, by the last reading
  MFloorBefore  \* the fences of the sources are read before the copy

Mems == First \cup Spares
Quorum == Cardinality(First) \div 2 + 1
AllTokens == Tokens \cup Tokens2
Keys == IF Tokens2 = {} THEN 1 ELSE 2
KeyOf(t) == IF t \in Tokens THEN 1 ELSE 2
Max(i, j) == IF i > j THEN i ELSE j
Min(i, j) == IF i < j THEN i ELSE j
Less(i) == IF i > 0 THEN i - 1 ELSE 0

VARIABLES
  chain, \* the chosen records: the voters V, and the learners L
  rec,   \* the version that each memory shows as settled; 0: none
  key,   \* what each memory holds for each key
  tok,   \* each token's round or lease: the votes for it (or its EXTEND) and their version, the ticks that are left, and those of the EXTEND; its fence
  cop,   \* each copier: of which m, under which record, from which sources; which key it is at, who is to be read, what m held, and what the sources do
  mark,  \* the highest fence that each memory has accepted
  granted\* the highest fence that was granted, of all keys; whether they grew
vars == <<chain, rec, key, tok, cop, mark, granted>>

Last == chain[Len(chain)]
Listed(R) == R.V \cup R.L
Seen == UNION {Listed(chain[v]) : v \in 1..Len(chain)}
None == [val |-> Nobody, end |-> 0]
New == [st |-> "asks", v |-> 0, votes |-> {}, left |-> 0, more |-> 0, fence |-> 0]
Over(t) == [New EXCEPT !.st = "over", !.fence = tok[t].fence]
Idle == [st |-> "idle", m |-> Nobody, v |-> 0, from |-> {}, k |-> 0, todo |-> {}, held |-> Nobody, val |-> Nobody, end |-> 0, floor |-> 0]

Init ==
  /\ chain = <<[V |-> First, L |-> {}]>>
  /\ rec = [x \in Mems |-> IF x \in First THEN 1 ELSE 0]
  /\ key = [x \in Mems |-> [k \in 1..Keys |-> None]]
  /\ tok = [t \in AllTokens |-> New]
  /\ cop = [p \in Copiers |-> Idle]
  /\ mark = [x \in Mems |-> 0]
  /\ granted = [fence |-> 0, grew |-> TRUE]
---------------------------------------------------------------------------------
(* The record. *)

(* A memory that no vote and no copy needs any more: its keys are left out. *)
Idles(x, v, R) ==
  /\ x \notin Listed(R) /\ \A w \in v..Len(chain) : w > 0 => x \notin chain[w].V
  /\ \A w \in 1..Len(chain) : chain[w].L # {} => x \notin chain[w].V

Choose(R) ==
  /\ Len(chain) < MaxVersion
  /\ chain' = Append(chain, R)
  /\ \E X \in {Y \in SUBSET Listed(Last) : Cardinality(Y) = Quorum} :
       /\ rec' = [x \in Mems |-> IF x \in X THEN Len(chain) + 1 ELSE rec[x]]
       /\ key' = [x \in Mems |-> IF Idles(x, rec'[x], R) THEN [k \in 1..Keys |-> None] ELSE key[x]]

Replace ==
  /\ \E x \in Listed(Last) \cap Goes, y \in Spares \ Seen :
       LET R == [V |-> Last.V \ {x}, L |-> (Last.L \ {x}) \cup {y}] IN Cardinality(R.L) <= Losses /\ Choose(R)
  /\ UNCHANGED <<tok, cop, mark, granted>>

Learn(x) ==
  /\ \E v \in rec[x] + 1..Len(chain) : x \in Listed(chain[v]) /\ rec' = [rec EXCEPT ![x] = v]
  /\ UNCHANGED <<chain, key, tok, cop, mark, granted>>
---------------------------------------------------------------------------------
(* Locks. *)

MayCount(t, x) == rec[x] > 0 /\ x \in chain[rec[x]].V /\ tok[t].v \in {0, rec[x]} /\ x \notin tok[t].votes
Must(t, x) == MayCount(t, x) /\ tok[t].v # 0
(* Where a command may be executed without counting: where somebody reads. *)
Besides(t, x) == t \in Late /\ x \in Listed(Last) \cup UNION {cop[p].from : p \in Copiers}
Wins(t) == Cardinality(tok[t].votes) + 1 >= Quorum

Set(t, x) ==
  /\ key[x][KeyOf(t)].val = Nobody
  /\ \E f \in IF tok[t].fence = 0 /\ Fences # {} THEN Fences ELSE {tok[t].fence} :
     LET o == [tok[t] EXCEPT !.fence = f, !.left = IF tok[t].st = "asks" /\ @ = 0 /\ Ticks THEN TTL ELSE @] IN
     /\ Fences = {} \/ f > mark[x]
     /\ mark' = [mark EXCEPT ![x] = f]
     /\ \/ /\ o.st = "asks" /\ MayCount(t, x)
           /\ tok' = [tok EXCEPT ![t] = IF Wins(t) THEN [o EXCEPT !.st = "holds", !.v = 0, !.votes = {}]
                                        ELSE [o EXCEPT !.v = rec[x], !.votes = @ \cup {x}]]
           /\ granted' = IF Wins(t) /\ Fences # {} THEN [fence |-> Max(f, granted.fence), grew |-> granted.grew /\ f > granted.fence] ELSE granted
        \/ /\ Besides(t, x) /\ ~(o.st = "asks" /\ Must(t, x))
           /\ tok' = [tok EXCEPT ![t] = o]
           /\ UNCHANGED granted
  /\ key' = [key EXCEPT ![x][KeyOf(t)] = [val |-> t, end |-> TTL]]
  /\ UNCHANGED <<chain, rec, cop>>

Extend(t, x) ==
  /\ Longer > 0 /\ tok[t].st = "holds" /\ key[x][KeyOf(t)].val = t
  /\ \/ /\ MayCount(t, x)
        /\ LET more == IF tok[t].votes = {} THEN Longer ELSE tok[t].more IN
           tok' = [tok EXCEPT ![t] = IF Wins(t) THEN [@ EXCEPT !.left = Max(@, more), !.v = 0, !.votes = {}, !.more = 0]
                                     ELSE [@ EXCEPT !.v = rec[x], !.votes = @ \cup {x}, !.more = more]]
     \/ Besides(t, x) /\ ~Must(t, x) /\ UNCHANGED tok
  /\ key' = [key EXCEPT ![x][KeyOf(t)].end = Max(@, Longer)]
  /\ UNCHANGED <<chain, rec, cop, mark, granted>>

(* A release, or what takes a failed round back. Before the first one nothing has ended. *)
Delete(t, x) ==
  /\ key[x][KeyOf(t)].val = t
  /\ key' = [key EXCEPT ![x][KeyOf(t)] = None]
  /\ tok' = [tok EXCEPT ![t] = Over(t)]
  /\ UNCHANGED <<chain, rec, cop, mark, granted>>

Tick ==
  /\ Ticks
  /\ key' = [x \in Mems |-> [k \in 1..Keys |-> IF key[x][k].end <= 1 THEN None ELSE [key[x][k] EXCEPT !.end = @ - 1]]]
  /\ tok' = [t \in AllTokens |->
       LET o == tok[t] IN
       IF o.left = 1 THEN Over(t)
       ELSE IF o.more = 1 THEN [o EXCEPT !.left = Less(@), !.v = 0, !.votes = {}, !.more = 0]
       ELSE [o EXCEPT !.left = Less(@), !.more = Less(@)]]
  /\ cop' = [p \in Copiers |-> [cop[p] EXCEPT !.end = Less(@)]]
  /\ UNCHANGED <<chain, rec, mark, granted>>
---------------------------------------------------------------------------------
(* Copying. *)

IsLearner(q) == rec[q.m] >= q.v /\ q.m \in chain[rec[q.m]].L
Highest(S) == CHOOSE f \in {mark[x] : x \in S} : \A y \in S : mark[y] <= f
(* m is read, and then the sources are to be read. *)
ReadKey(q, k) == [q EXCEPT !.st = "reads", !.k = k, !.todo = q.from, !.held = key[q.m][k].val, !.val = Nobody, !.end = 0]
AfterLook(q) ==
  IF q.k < Keys THEN [q EXCEPT !.st = "looks", !.k = @ + 1, !.todo = {}, !.val = Nobody]
  ELSE [q EXCEPT !.st = "ready", !.k = 0, !.todo = {}, !.val = Nobody]
(* The memories that are read where source x is meant. *)
Behind(q, x) == {x} \cup IF MSourcesForget /\ x \notin Listed(Last) THEN Last.L \ {q.m} ELSE {}
HasLeft(q, x) == MNotLeft \/ rec[x] >= q.v
(* What two sources hold. *)
Join(u, w) == IF u = Nobody THEN w ELSE IF w \in {Nobody, u} THEN u ELSE IF MOneOfTwo THEN w ELSE Sentinel

Begin(p) ==
  /\ \E v \in 1..Len(chain) : \E m \in chain[v].L \cap Listed(Last) :
     \E S \in {X \in SUBSET (IF MLearnerSource THEN Listed(chain[v]) \ {m} ELSE chain[v].V) :
                 Cardinality(X) = IF MMinority THEN Quorum - 1 ELSE Quorum} :
       cop' = [cop EXCEPT ![p] = ReadKey([Idle EXCEPT !.m = m, !.v = v, !.from = S, !.floor = IF MFloorBefore THEN Highest(S) ELSE 0], 1)]
  /\ UNCHANGED <<chain, rec, key, tok, mark, granted>>

(* The key is read again: the sources differ, or m holds something else by now. *)
Again(p) ==
  /\ cop[p].st = "reads"
  /\ cop' = [cop EXCEPT ![p] = ReadKey(@, @.k)]
  /\ UNCHANGED <<chain, rec, key, tok, mark, granted>>

Read(p) ==
  LET q == cop[p] IN
  /\ q.st = "reads"
  /\ \E x \in q.todo : \E y \in Behind(q, x) :
       LET h == key[y][q.k]
           both == q.val # Nobody /\ h.val # Nobody
       IN /\ HasLeft(q, y)
          /\ cop' = [cop EXCEPT ![p] = [q EXCEPT !.todo = @ \ {x}, !.val = Join(@, h.val),
                                                 !.end = IF MSmallerEnd /\ both THEN Min(@, h.end) ELSE Max(@, h.end)]]
  /\ UNCHANGED <<chain, rec, key, tok, mark, granted>>

(* What m gets. A copy whose time is over is a key that has ended. *)
Given(q, h) ==
  IF q.val = Nobody THEN None
  ELSE IF h.val = q.val THEN [h EXCEPT !.end = Max(@, q.end)]
  ELSE IF MOnlyAbsent /\ h.val # Nobody THEN h
  ELSE IF q.end = 0 THEN None ELSE [val |-> q.val, end |-> q.end]

Write(p) ==
  LET q == cop[p]
      h == key[q.m][q.k]
      same == h.val = q.held \/ ~Compares
  IN
  /\ q.st = "reads" /\ q.todo = {}
  /\ IsLearner(q) \/ MLateWrite
  /\ same \/ q.val = Nobody \* nothing to delete there: the copier goes on
  /\ key' = IF same THEN [key EXCEPT ![q.m][q.k] = Given(q, h)] ELSE key
  /\ cop' = [cop EXCEPT ![p] = IF q.k < Keys THEN ReadKey(q, q.k + 1)
                               ELSE [q EXCEPT !.st = "looks", !.k = 1, !.held = Nobody, !.val = Nobody, !.end = 0]]
  /\ UNCHANGED <<chain, rec, tok, mark, granted>>

(* The last reading of a key: of m, of the sources until one holds the value of m, and, if none does, the deletion. *)
Look(p) ==
  LET q == cop[p]
      w == key[q.m][q.k].val
  IN
  /\ q.st = "looks"
  /\ cop' = [cop EXCEPT ![p] = IF w = Nobody \/ (w = Sentinel /\ ~MSentinelGoes) THEN AfterLook(q)
                               ELSE [q EXCEPT !.st = "last", !.todo = q.from, !.val = w]]
  /\ UNCHANGED <<chain, rec, key, tok, mark, granted>>

ReadLast(p) ==
  LET q == cop[p] IN
  /\ q.st = "last"
  /\ \E x \in q.todo : \E y \in Behind(q, x) :
       /\ HasLeft(q, y)
       /\ cop' = [cop EXCEPT ![p] = IF key[y][q.k].val = q.val THEN AfterLook(q) ELSE [q EXCEPT !.todo = @ \ {x}]]
  /\ UNCHANGED <<chain, rec, key, tok, mark, granted>>

Remove(p) ==
  LET q == cop[p] IN
  /\ q.st = "last" /\ q.todo = {}
  /\ key' = IF (key[q.m][q.k].val = q.val \/ ~Compares) /\ (IsLearner(q) \/ MLateDelete) THEN [key EXCEPT ![q.m][q.k] = None] ELSE key
  /\ cop' = [cop EXCEPT ![p] = AfterLook(q)]
  /\ UNCHANGED <<chain, rec, tok, mark, granted>>

Promote(p) ==
  LET q == cop[p] IN
  /\ q.st = "ready" \/ (MBeforeLast /\ q.st = "reads" /\ q.k = Keys /\ q.todo # {})
  /\ q.m \in Last.L
  /\ q.from \subseteq Last.V \/ (MLearnerSource /\ q.from \subseteq Listed(Last)) \/ MSourcesForget \/ ~SourcesStay
  /\ Choose([V |-> Last.V \cup {q.m}, L |-> Last.L \ {q.m}])
  /\ mark' = [mark EXCEPT ![q.m] = Max(@, IF MFloorBefore THEN q.floor ELSE Highest(q.from))]
  /\ cop' = [cop EXCEPT ![p] = Idle]
  /\ UNCHANGED <<tok, granted>>
---------------------------------------------------------------------------------
Next ==
  \/ Replace \/ Tick
  \/ \E x \in Seen : Learn(x) \/ \E t \in AllTokens : Set(t, x) \/ Extend(t, x) \/ Delete(t, x)
  \/ \E p \in Copiers : Begin(p) \/ Again(p) \/ Read(p) \/ Write(p) \/ Look(p) \/ ReadLast(p) \/ Remove(p) \/ Promote(p)
Spec == Init /\ [][Next]_vars

MutualExclusion == \A t, u \in AllTokens : t # u /\ KeyOf(t) = KeyOf(u) => ~(tok[t].st = "holds" /\ tok[u].st = "holds")
(* With one key. *)
FencesGrow == granted.grew
Alike == {Tokens \cap Late, Tokens \ Late, Tokens2 \cap Late, Tokens2 \ Late, First \cap Goes, First \ Goes, Spares \cap Goes, Spares \ Goes, Copiers}
Perms == UNION {Permutations(S) : S \in Alike}
=================================================================================
