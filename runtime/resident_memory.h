// What this process keeps in the machine's memory, as Linux counts it. Leaves out whose it is:
// program, libraries, stacks and the runtime's arenas together.
#pragma once

#include <cstdint>

namespace foretrain {

// Resident now, in bytes; 0 where the system does not say. Some microseconds.
std::int64_t ResidentBytes();

// Lets PeakResidentBytes count from now on. False: the system does not do that, and the peak stays
// that of the process's whole life.
bool ResetPeakResident();

// The most that was ever resident, in bytes, since ResetPeakResident; 0 where the system does not
// say.
std::int64_t PeakResidentBytes();

}  // namespace foretrain
