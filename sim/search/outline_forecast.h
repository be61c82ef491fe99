// A plan's forecast from a program that is held in outline: for a search, which simulates many
// plans and shows none of their programs.
#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "sim/search/search.h"

namespace foretrain {

// As MakeForecast without a timeline and without Verify: the same figures. With RankChoice::kFirst
// each rank of the program keeps its step and the size of its arenas (CompileOutline), and the
// costs have no rows of ops. Errors: those of CompileUnverified, CostsOf and Simulate.
Result<Forecast> ForecastOutline(const ModelSpec& model, const Plan& plan, const CostModel& costs,
                                 RankChoice ranks);
// The same, or nothing where `fits` says so of one of the ranks, of which the first is asked before
// the next is compiled. With RankChoice::kAll none is asked.
using RankFits = std::function<bool(const RankProgram&, const PeakMemory&)>;
Result<std::optional<Forecast>> ForecastOutline(const ModelSpec& model, const Plan& plan,
                                                const CostModel& costs, RankChoice ranks,
                                                const RankFits& fits);

}  // namespace foretrain
