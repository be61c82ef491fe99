// The stacks that hold memory at the peak, as `analyze` lists them.
#pragma once

#include <string>
#include <vector>

#include "traces/held_memory.h"
#include "traces/store.h"

namespace foretrain {

class JsonWriter;

// Reads the allocations at each rank's peak, which an imported snapshot stored. Empty if the run
// has none or the store's text is damaged.
std::vector<HeldOfRank> HeldMemoryOf(const StoreReader& reader, RunId run);

// The largest of the fullest rank and a line for the others; "" if nothing is known.
std::string HeldMemoryText(const std::vector<HeldOfRank>& ranks);

// The key `held_memory` into the open object; nothing is written if nothing is known.
void WriteHeldMemory(JsonWriter& json, const std::vector<HeldOfRank>& ranks);

}  // namespace foretrain
