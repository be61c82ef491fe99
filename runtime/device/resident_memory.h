// Resident memory of this process as Linux counts it: program, libraries, stacks and the runtime's
// arenas together.
#pragma once

#include <cstdint>

namespace foretrain {

// Bytes resident now; 0 if the system does not report it. Takes some microseconds.
std::int64_t ResidentBytes();

// Makes PeakResidentBytes count from now on. If false, the system cannot do that, and the peak
// covers the process's whole life.
bool ResetPeakResident();

// Maximum resident bytes since ResetPeakResident; 0 if the system does not report it.
std::int64_t PeakResidentBytes();

}  // namespace foretrain
