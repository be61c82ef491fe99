#include "app/run_app.h"

int main(int argc, char** argv) { return foretrain::RunApp(argc, argv); }
