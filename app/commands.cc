#include "app/commands/commands.h"

namespace foretrain {

CommandList AllCommands() {
  CommandList list;
  list.push_back(MakeModels());
  list.push_back(MakeClusters());
  return list;
}

}  // namespace foretrain
