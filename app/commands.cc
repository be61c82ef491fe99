#include "app/commands/commands.h"

namespace foretrain {

// The order of --help: catalogues, forecasts, runs and their reports, measurements, the desktop.
CommandList AllCommands() {
  CommandList list;
  list.push_back(MakeModels());
  list.push_back(MakeClusters());
  list.push_back(MakePresets());
  list.push_back(MakeDevices());
  list.push_back(MakePlan());
  list.push_back(MakePredict());
  list.push_back(MakeFit());
  list.push_back(MakeTrain());
  list.push_back(MakeCompare());
  list.push_back(MakeAnalyze());
  list.push_back(MakeExport());
  list.push_back(MakeImport());
  list.push_back(MakeRuns());
  list.push_back(MakeCalibrate());
  list.push_back(MakeValidate());
  list.push_back(MakeView());
  list.push_back(MakeDemo());
  list.push_back(MakeBench());
  return list;
}

}  // namespace foretrain
