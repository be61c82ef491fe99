// Timelines of millions of spans, for tests of the cost of a frame.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ui/run_view.h"

namespace foretrain {

// `count` spans on 32 ranks with three queues each, lengths from 1 ns to 100 us, of all passes.
RunView ManySpans(std::size_t count, std::uint64_t seed);

}  // namespace foretrain
