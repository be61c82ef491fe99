// How willingly the calling thread gives the processor to others.
#pragma once

namespace foretrain {

// From now on the calling thread takes the processor where others leave it idle, and little beside
// them: for work whose result nobody waits for. Does nothing where the system has no priorities of
// threads (Linux has).
void GiveWay();

}  // namespace foretrain
