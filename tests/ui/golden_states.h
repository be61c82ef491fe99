// The states in which people meet the desktop: nothing open, small and long runs, a trace,
// forecasts of large models.
#pragma once

#include <string>
#include <vector>

#include "ui/run_view.h"

namespace foretrain {

struct GoldenState {
  std::string name{};
  CompareInput input{};
};

// none, empty, demo, big (drawn from sums), imported, forecast (llama3.1-405b on 2,048 GPUs) and
// deepseek-v3 (on 1,024). Fails the test if a forecast fails. Takes under a second.
std::vector<GoldenState> GoldenStates();

// A forecast as the desktop shows it, of the first rank of each stage.
RunView ForecastRun(const std::string& model, const std::string& cluster, const Plan& plan);

}  // namespace foretrain
