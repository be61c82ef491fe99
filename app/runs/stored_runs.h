// Stored runs for commands: writes a forecast, and finds a run and its forecast again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/forecast/forecasting.h"
#include "base/result.h"
#include "traces/store.h"

namespace foretrain {

inline constexpr const char* kDefaultStore = "foretrain.db";
// Attachment of a failed run: the newest ops of each rank, one a line.
inline constexpr std::string_view kLastOpsAttachment = "last_ops";

// The inputs of a run of `program`, as texts. The profile is stored too, because `compare` replays
// the run.
RunSetup SetupFor(RunKind kind, const ForecastContext& context, const Program& program,
                  std::string label);

// The names of the program's ops under the keys of Timeline::op_names.
std::map<OpId, std::string> OpNamesOf(const Program& program);

// Writes a forecast as a finished run and returns its number.
Result<RunId> StoreForecast(Store& store, const ForecastContext& context, const Forecast& forecast,
                            const Metrics& metrics);

// A run and the one to compare it with. Run 0 means the newest measured run, `against` 0 its
// forecast. A measurement without a forecast has no counterpart.
struct RunPair {
  std::optional<StoredRun> predicted;
  std::optional<StoredRun> measured;
};
Result<RunPair> LoadPair(const StoreReader& reader, RunId run, RunId against);

// Chooses the runs of LoadPair without reading them. Errors: kInvalidArgument, no such run, or no
// run at all.
struct RunChoice {
  std::optional<RunInfo> predicted;
  std::optional<RunInfo> measured;
};
Result<RunChoice> ChoosePair(const StoreReader& reader, RunId run, RunId against);

// The context that a stored run was made in: model, cluster and device profile.
struct StoredContext {
  ForecastContext context;
  Plan plan;
  double machine_drift = 0;  // 0: not measured
};
Result<StoredContext> ContextOf(const StoreReader& reader, const StoredRun& run);

}  // namespace foretrain
