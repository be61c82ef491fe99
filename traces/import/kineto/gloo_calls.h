// Communication by Gloo. An operator such as c10d::_reduce_scatter_base_ only orders it; a thread
// of Gloo's then communicates, and annotates that time with a name such as "gloo:all_reduce".
#pragma once

#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// Removes what runs within an annotation, as the copies of a gather: it is a part of it. Then gives
// the n-th annotation the collective of the n-th operator, which becomes a call of the host, if
// there are equally many of both, each annotation after its operator.
//
//   only_group  whether the trace has one process group: the annotations are its communication
//
// O(n log n) in the events.
void JoinGlooCalls(RankEvents& events, bool only_group);

}  // namespace foretrain::trace_import
