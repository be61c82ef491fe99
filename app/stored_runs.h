// Runs in the store as commands see them: writing a forecast, finding a run and its forecast again.
#pragma once

#include <optional>
#include <string>

#include "app/forecasting.h"
#include "base/result.h"
#include "traces/store.h"

namespace foretrain {

inline constexpr const char* kDefaultStore = "foretrain.db";

// What a run of `program` is made from, as texts. `profile` goes along, so that `compare` can
// replay.
RunSetup SetupFor(RunKind kind, const ForecastContext& context, const Program& program,
                  std::string label);

// The names of the program's ops under the keys of Timeline::op_names.
std::map<OpId, std::string> OpNamesOf(const Program& program);

// Writes a forecast as a finished run and returns its number.
Result<RunId> StoreForecast(Store& store, const ForecastContext& context, const Forecast& forecast,
                            const Metrics& metrics);

// A run and the one to hold it against. 0 asks for the newest measured run and its forecast; a
// measurement without a forecast stands alone.
struct RunPair {
  std::optional<StoredRun> predicted;
  std::optional<StoredRun> measured;
};
Result<RunPair> LoadPair(const StoreReader& reader, RunId run, RunId against);

// Which runs those are. Errors: kInvalidArgument, no such run, or none at all.
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
