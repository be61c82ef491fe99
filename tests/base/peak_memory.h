// Memory that a piece of work takes at most, measured in a child process.
#pragma once

#include <cstdint>
#include <functional>

namespace foretrain {

// False under sanitizers, which keep freed memory and shadows of their own.
bool CanMeasureMemory();

// Bytes by which the resident memory of a child process grows at most while it runs `work`. Memory
// that this process has freed but not returned may serve the child without counting. Fails the test
// if the child dies.
std::int64_t PeakGrowthBytes(const std::function<void()>& work);

}  // namespace foretrain
