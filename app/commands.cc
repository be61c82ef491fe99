#include "app/commands/commands.h"

namespace foretrain {

// The order of --help: catalogues, forecasts, runs and their reports, measurements, the desktop.
std::span<const CommandEntry> CommandTable() {
  static constexpr CommandEntry kTable[] = {
      {"models", "List the models of the catalogue", &MakeModels},
      {"clusters", "List accelerators, for use in --cluster", &MakeClusters},
      {"presets", "List presets: plan options as published training systems set them",
       &MakePresets},
      {"devices", "Show what this machine can train on", &MakeDevices},
      {"plan", "Search for the fastest plans that fit in memory", &MakePlan},
      {"sweep", "Find the best plan for each of several values of options", &MakeSweep},
      {"predict", "Forecast step time, memory and timeline of one plan", &MakePredict},
      {"schedule", "Check a pipeline schedule in a file, or write that of a plan as a file",
       &MakeSchedule},
      {"check", "Find what is wrong with a trainer's launch file, or why its run is slow",
       &MakeCheck},
      {"fit", "Show which models fit on a cluster, each with its longest sequence", &MakeFit},
      {"tokenize", "Turn texts into a shard of tokens for train", &MakeTokenize},
      {"train", "Run a plan on real data and record it", &MakeTrain},
      {"generate", "Continue a text with a model", &MakeGenerate},
      {"convert", "Write weights as a model's folder of the Hugging Face library", &MakeConvert},
      {"compare", "Compare a run with its forecast, op by op", &MakeCompare},
      {"analyze", "Show where one run's time and memory go, and suggest changes", &MakeAnalyze},
      {"export", "Write runs as a trace that Perfetto opens", &MakeExport},
      {"import", "Store traces of PyTorch, Nsight Systems or foretrain as a run", &MakeImport},
      {"runs", "List and manage the runs of a store", &MakeRuns},
      {"sql", "Ask a store's views with one SELECT", &MakeSql},
      {"calibrate", "Measure how fast this machine runs ops, or learn from measured runs",
       &MakeCalibrate},
      {"validate", "Forecast published runs and show the errors by source", &MakeValidate},
      {"view", "Open the desktop, or draw a view into a file", &MakeView},
      {"demo", "Measure this machine, plan, forecast, train and compare, in about a minute",
       &MakeDemo},
      {"bench",
       "Train a table of models and compare each with its forecast; or time the search or the "
       "simulator",
       &MakeBench},
      {"completion", "Print a completion script for a shell, or the man page", &MakeCompletion}};
  return kTable;
}

}  // namespace foretrain
