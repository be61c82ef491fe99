// A training run of milliseconds, for tests of everything around it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/app/run_binary.h"

namespace foretrain {

// Writes text.txt into the folder and returns "train ... --data text.txt": two ranks that share the
// batch, half a millisecond per step.
std::string SmallTraining(const TemporaryFolder& folder);

// Losses of the steps in an output of `train --json`, in order.
std::vector<double> LossesOf(const std::string& output);

// The last line of JSON in an output.
nlohmann::json LastLine(const std::string& output);

// The runs that `runs --json` lists; fails the test if the command fails.
nlohmann::json RunsIn(const TemporaryFolder& folder);

// Result of `PRAGMA integrity_check` on the store in the folder: "ok".
std::string IntegrityOf(const TemporaryFolder& folder);

// The first value of a query on the store in the folder.
std::int64_t ValueIn(const TemporaryFolder& folder, const std::string& query);

}  // namespace foretrain
