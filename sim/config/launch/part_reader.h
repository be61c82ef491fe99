// From one text of a launch to a draft of its plan, with the account of its keys.
#pragma once

#include <vector>

#include "base/result.h"
#include "sim/config/launch/launch_facts.h"
#include "sim/config/launch/read_launch.h"

namespace foretrain {

// The last entry of each plain key, in the order of the file.
std::vector<const LaunchItem*> LastEntries(const LaunchText& text);

// Reads one part of a launch into a draft and adds its keys to `account`. The part's keys have the
// dialect's first names. Errors: those of ReadLaunch that one part shows.
Result<LaunchDraft> ReadPart(const LaunchPart& part, const ReadLaunchOptions& options,
                             LaunchAccount& account);

}  // namespace foretrain
