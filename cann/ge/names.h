/* C++ functions of the graph engine that are undefined symbols in TorchAir's and MindSpore's
 * libraries, as nm lists them: symbol, function. */
#define WEIR_GE_TORCHAIR_LIST(X)                                                                                  \
    X(_ZN2ge10TensorDesc11SetDataTypeENS_8DataTypeE, "ge::TensorDesc::SetDataType")                               \
    X(_ZN2ge10TensorDesc12SetPlacementENS_9PlacementE, "ge::TensorDesc::SetPlacement")                            \
    X(_ZN2ge10TensorDesc14SetOriginShapeERKNS_5ShapeE, "ge::TensorDesc::SetOriginShape")                          \
    X(_ZN2ge10TensorDesc15SetOriginFormatENS_6FormatE, "ge::TensorDesc::SetOriginFormat")                         \
    X(_ZN2ge10TensorDesc9SetFormatENS_6FormatE, "ge::TensorDesc::SetFormat")                                      \
    X(_ZN2ge10TensorDescC1Ev, "ge::TensorDesc::TensorDesc")                                                       \
    X(_ZN2ge12GEInitializeERKSt3mapINS_12AscendStringES1_St4lessIS1_ESaISt4pairIKS1_S1_EEE,                       \
      "ge::GEInitialize")                                                                                         \
    X(_ZN2ge13GEGetErrorMsgEv, "ge::GEGetErrorMsg")                                                               \
    X(_ZN2ge13GetFormatNameENS_6FormatE, "ge::GetFormatName")                                                     \
    X(_ZN2ge17GEGetWarningMsgV2Ev, "ge::GEGetWarningMsgV2")                                                       \
    X(_ZN2ge5Graph28LoadFromSerializedModelArrayEPKvm, "ge::Graph::LoadFromSerializedModelArray")                 \
    X(_ZN2ge5Graph8CopyFromERKS0_, "ge::Graph::CopyFrom")                                                         \
    X(_ZN2ge5GraphC1EPKc, "ge::Graph::Graph")                                                                     \
    X(_ZN2ge5ShapeC1ERKSt6vectorIlSaIlEE, "ge::Shape::Shape")                                                     \
    X(_ZN2ge6Tensor11SetDataTypeERKNS_8DataTypeE, "ge::Tensor::SetDataType")                                      \
    X(_ZN2ge6Tensor11SetShapeDimEml, "ge::Tensor::SetShapeDim")                                                   \
    X(_ZN2ge6Tensor12SetPlacementERKNS_9PlacementE, "ge::Tensor::SetPlacement")                                   \
    X(_ZN2ge6Tensor13SetTensorDescERKNS_10TensorDescE, "ge::Tensor::SetTensorDesc")                               \
    X(_ZN2ge6Tensor14SetShapeDimNumEm, "ge::Tensor::SetShapeDimNum")                                              \
    X(_ZN2ge6Tensor17SetOriginShapeDimEml, "ge::Tensor::SetOriginShapeDim")                                       \
    X(_ZN2ge6Tensor20SetOriginShapeDimNumEm, "ge::Tensor::SetOriginShapeDimNum")                                  \
    X(_ZN2ge6Tensor7GetDataEv, "ge::Tensor::GetData")                                                             \
    X(_ZN2ge6Tensor7SetDataEPhmRKSt8functionIFvS1_EE, "ge::Tensor::SetData")                                      \
    X(_ZN2ge6Tensor9ResetDataEPhmRKSt8functionIFvS1_EE, "ge::Tensor::ResetData")                                  \
    X(_ZN2ge6Tensor9ResetDataEv, "ge::Tensor::ResetData")                                                         \
    X(_ZN2ge6Tensor9SetFormatERKNS_6FormatE, "ge::Tensor::SetFormat")                                             \
    X(_ZN2ge6TensorC1Ev, "ge::Tensor::Tensor")                                                                    \
    X(_ZN2ge7Session11RemoveGraphEj, "ge::Session::RemoveGraph")                                                  \
    X(_ZN2ge7Session12CompileGraphEj, "ge::Session::CompileGraph")                                                \
    X(_ZN2ge7Session23GetCompiledGraphSummaryEj, "ge::Session::GetCompiledGraphSummary")                          \
    X(_ZN2ge7Session23RunGraphWithStreamAsyncEjPvRKSt6vectorINS_6TensorESaIS3_EERS5_,                             \
      "ge::Session::RunGraphWithStreamAsync")                                                                     \
    X(_ZN2ge7Session23SetGraphConstMemoryBaseEjPKvm, "ge::Session::SetGraphConstMemoryBase")                      \
    X(_ZN2ge7Session28UpdateGraphFeatureMemoryBaseEjPKvm,                                                         \
      "ge::Session::UpdateGraphFeatureMemoryBase")                                                                \
    X(_ZN2ge7Session30SetGraphFixedFeatureMemoryBaseEjPKvm,                                                       \
      "ge::Session::SetGraphFixedFeatureMemoryBase")                                                              \
    X(_ZN2ge7Session39UpdateGraphRefreshableFeatureMemoryBaseEjPKvm,                                              \
      "ge::Session::UpdateGraphRefreshableFeatureMemoryBase")                                                     \
    X(_ZN2ge7Session8AddGraphEjRKNS_5GraphERKSt3mapINS_12AscendStringES5_St4lessIS5_ESaISt4pairIKS5_S5_EEE,       \
      "ge::Session::AddGraph")                                                                                    \
    X(_ZN2ge7Session8RunGraphEjRKSt6vectorINS_6TensorESaIS2_EERS4_, "ge::Session::RunGraph")                      \
    X(_ZN2ge7SessionC1ERKSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE,                           \
      "ge::Session::Session")                                                                                     \
    X(_ZN2ge7SessionD1Ev, "ge::Session::~Session")                                                                \
    X(_ZN2ge8Operator15UpdateInputDescEPKcRKNS_10TensorDescE, "ge::Operator::UpdateInputDesc")                    \
    X(_ZNK2ge10TensorDesc11GetDataTypeEv, "ge::TensorDesc::GetDataType")                                          \
    X(_ZNK2ge10TensorDesc12GetPlacementEv, "ge::TensorDesc::GetPlacement")                                        \
    X(_ZNK2ge10TensorDesc8GetShapeEv, "ge::TensorDesc::GetShape")                                                 \
    X(_ZNK2ge10TensorDesc9GetFormatEv, "ge::TensorDesc::GetFormat")                                               \
    X(_ZNK2ge20CompiledGraphSummary15GetOutputDtypesERSt6vectorINS_8DataTypeESaIS2_EE,                            \
      "ge::CompiledGraphSummary::GetOutputDtypes")                                                                \
    X(_ZNK2ge20CompiledGraphSummary15GetOutputShapesERSt6vectorINS_5ShapeESaIS2_EE,                               \
      "ge::CompiledGraphSummary::GetOutputShapes")                                                                \
    X(_ZNK2ge20CompiledGraphSummary18GetConstMemorySizeERm,                                                       \
      "ge::CompiledGraphSummary::GetConstMemorySize")                                                             \
    X(_ZNK2ge20CompiledGraphSummary20GetFeatureMemorySizeERm,                                                     \
      "ge::CompiledGraphSummary::GetFeatureMemorySize")                                                           \
    X(_ZNK2ge20CompiledGraphSummary25GetFixedFeatureMemorySizeERm,                                                \
      "ge::CompiledGraphSummary::GetFixedFeatureMemorySize")                                                      \
    X(_ZNK2ge20CompiledGraphSummary31GetFeatureMemoryBaseRefreshableERb,                                          \
      "ge::CompiledGraphSummary::GetFeatureMemoryBaseRefreshable")                                                \
    X(_ZNK2ge20CompiledGraphSummary11GetEventNumERm, "ge::CompiledGraphSummary::GetEventNum")                     \
    X(_ZNK2ge20CompiledGraphSummary12GetStreamNumERm, "ge::CompiledGraphSummary::GetStreamNum")                   \
    X(_ZNK2ge20CompiledGraphSummary24GetIOIndexesWithSameAddrERSt6vectorISt4pairIjjESaIS3_EE,                     \
      "ge::CompiledGraphSummary::GetIOIndexesWithSameAddr")                                                       \
    X(_ZNK2ge20CompiledGraphSummary31GetRefreshableFeatureMemorySizeERm,                                          \
      "ge::CompiledGraphSummary::GetRefreshableFeatureMemorySize")                                                \
    X(_ZNK2ge20CompiledGraphSummary8IsStaticEv, "ge::CompiledGraphSummary::IsStatic")                             \
    X(_ZNK2ge5GNode7GetTypeERNS_12AscendStringE, "ge::GNode::GetType")                                            \
    X(_ZNK2ge5Graph10SaveToFileEPKc, "ge::Graph::SaveToFile")                                                     \
    X(_ZNK2ge5Graph11GetAllNodesEv, "ge::Graph::GetAllNodes")                                                     \
    X(_ZNK2ge5Shape7GetDimsEv, "ge::Shape::GetDims")                                                              \
    X(_ZNK2ge6Tensor11GetDataTypeEv, "ge::Tensor::GetDataType")                                                   \
    X(_ZNK2ge6Tensor11GetShapeDimEm, "ge::Tensor::GetShapeDim")                                                   \
    X(_ZNK2ge6Tensor12GetPlacementEv, "ge::Tensor::GetPlacement")                                                 \
    X(_ZNK2ge6Tensor13GetTensorDescEv, "ge::Tensor::GetTensorDesc")                                               \
    X(_ZNK2ge6Tensor14GetShapeDimNumEv, "ge::Tensor::GetShapeDimNum")                                             \
    X(_ZNK2ge6Tensor20GetOriginShapeDimNumEv, "ge::Tensor::GetOriginShapeDimNum")                                 \
    X(_ZNK2ge6Tensor7GetDataEv, "ge::Tensor::GetData")                                                            \
    X(_ZNK2ge6Tensor9GetFormatEv, "ge::Tensor::GetFormat")                                                        \
    X(_ZNK2ge7Session25RegisterExternalAllocatorEPKvSt10shared_ptrINS_9AllocatorEE,                               \
      "ge::Session::RegisterExternalAllocator")                                                                   \
    X(_ZNK2ge8Operator25GetAllIrAttrNamesAndTypesERSt3mapINS_12AscendStringES2_St4lessIS2_ESaISt4pairIKS2_S2_EEE, \
      "ge::Operator::GetAllIrAttrNamesAndTypes")

#define WEIR_GE_MINDSPORE_LIST(X)                                                                            \
    X(_ZN2ge10TensorDesc13SetRealDimCntEl, "ge::TensorDesc::SetRealDimCnt")                                  \
    X(_ZN2ge10TensorDesc8SetShapeERKNS_5ShapeE, "ge::TensorDesc::SetShape")                                  \
    X(_ZN2ge10TensorDescC1ENS_5ShapeENS_6FormatENS_8DataTypeE, "ge::TensorDesc::TensorDesc")                 \
    X(_ZN2ge10TensorDescC1EOS0_, "ge::TensorDesc::TensorDesc")                                               \
    X(_ZN2ge10TensorDescC1ERKS0_, "ge::TensorDesc::TensorDesc")                                              \
    X(_ZN2ge10TensorTypeC1ERKSt16initializer_listINS_8DataTypeEE, "ge::TensorType::TensorType")              \
    X(_ZN2ge11GraphBufferC1Ev, "ge::GraphBuffer::GraphBuffer")                                               \
    X(_ZN2ge11GraphBufferD1Ev, "ge::GraphBuffer::~GraphBuffer")                                              \
    X(_ZN2ge5Graph10RemoveEdgeERNS_5GNodeEiS2_i, "ge::Graph::RemoveEdge")                                    \
    X(_ZN2ge5Graph10RemoveNodeERNS_5GNodeE, "ge::Graph::RemoveNode")                                         \
    X(_ZN2ge5Graph10SetOutputsERKSt6vectorINS_8OperatorESaIS2_EE, "ge::Graph::SetOutputs")                   \
    X(_ZN2ge5Graph10SetOutputsERKSt6vectorISt4pairINS_8OperatorESsESaIS4_EE,                                 \
      "ge::Graph::SetOutputs")                                                                               \
    X(_ZN2ge5Graph11AddDataEdgeERNS_5GNodeEiS2_i, "ge::Graph::AddDataEdge")                                  \
    X(_ZN2ge5Graph14AddControlEdgeERNS_5GNodeES2_, "ge::Graph::AddControlEdge")                              \
    X(_ZN2ge5Graph16SetNeedIterationEb, "ge::Graph::SetNeedIteration")                                       \
    X(_ZN2ge5Graph9SetInputsERKSt6vectorINS_8OperatorESaIS2_EE, "ge::Graph::SetInputs")                      \
    X(_ZN2ge5GraphC1ERKSs, "ge::Graph::Graph")                                                               \
    X(_ZN2ge5Shape6SetDimEml, "ge::Shape::SetDim")                                                           \
    X(_ZN2ge5ShapeC1Ev, "ge::Shape::Shape")                                                                  \
    X(_ZN2ge6Tensor7SetDataEPKhm, "ge::Tensor::SetData")                                                     \
    X(_ZN2ge6Tensor7SetDataERKSs, "ge::Tensor::SetData")                                                     \
    X(_ZN2ge6Tensor7SetDataERKSt6vectorISsSaISsEE, "ge::Tensor::SetData")                                    \
    X(_ZN2ge6TensorC1ERKNS_10TensorDescE, "ge::Tensor::Tensor")                                              \
    X(_ZN2ge6TensorC1ERKNS_10TensorDescEPKhm, "ge::Tensor::Tensor")                                          \
    X(_ZN2ge7PromoteC1ERKSt16initializer_listIPKcE, "ge::Promote::Promote")                                  \
    X(_ZN2ge7Session13RunGraphAsyncEjRKSt6vectorINS_6TensorESaIS2_EESt8functionIFvjRS4_EE,                   \
      "ge::Session::RunGraphAsync")                                                                          \
    X(_ZN2ge7Session20RegisterCallBackFuncERKSsRKPFjjRKSt3mapISsNS_6TensorESt4lessISsESaISt4pairIS1_S4_EEEE, \
      "ge::Session::RegisterCallBackFunc")                                                                   \
    X(_ZN2ge7Session8AddGraphEjRKNS_5GraphERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE,                      \
      "ge::Session::AddGraph")                                                                               \
    X(_ZN2ge7SessionC1ERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE, "ge::Session::Session")                  \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKNS_12AscendStringE, "ge::Operator::AttrRegister")                   \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKNS_6TensorE, "ge::Operator::AttrRegister")                          \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKNS_8DataTypeE, "ge::Operator::AttrRegister")                        \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKSt6vectorINS_12AscendStringESaIS4_EE,                               \
      "ge::Operator::AttrRegister")                                                                          \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKSt6vectorINS_8DataTypeESaIS4_EE,                                    \
      "ge::Operator::AttrRegister")                                                                          \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKSt6vectorIS3_IlSaIlEESaIS5_EE,                                      \
      "ge::Operator::AttrRegister")                                                                          \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKSt6vectorIfSaIfEE, "ge::Operator::AttrRegister")                    \
    X(_ZN2ge8Operator12AttrRegisterEPKcRKSt6vectorIlSaIlEE, "ge::Operator::AttrRegister")                    \
    X(_ZN2ge8Operator12AttrRegisterEPKcb, "ge::Operator::AttrRegister")                                      \
    X(_ZN2ge8Operator12AttrRegisterEPKcf, "ge::Operator::AttrRegister")                                      \
    X(_ZN2ge8Operator12AttrRegisterEPKcl, "ge::Operator::AttrRegister")                                      \
    X(_ZN2ge8Operator13InputRegisterEPKcS2_, "ge::Operator::InputRegister")                                  \
    X(_ZN2ge8Operator13InputRegisterERKSs, "ge::Operator::InputRegister")                                    \
    X(_ZN2ge8Operator14OutputRegisterEPKcS2_, "ge::Operator::OutputRegister")                                \
    X(_ZN2ge8Operator14OutputRegisterERKSs, "ge::Operator::OutputRegister")                                  \
    X(_ZN2ge8Operator15AddControlInputERKS0_, "ge::Operator::AddControlInput")                               \
    X(_ZN2ge8Operator15UpdateInputDescERKSsRKNS_10TensorDescE, "ge::Operator::UpdateInputDesc")              \
    X(_ZN2ge8Operator16DataTypeRegisterEPKcRKNS_10TensorTypeE, "ge::Operator::DataTypeRegister")             \
    X(_ZN2ge8Operator16DataTypeRegisterEPKcRKNS_7PromoteE, "ge::Operator::DataTypeRegister")                 \
    X(_ZN2ge8Operator16UpdateOutputDescEPKcRKNS_10TensorDescE, "ge::Operator::UpdateOutputDesc")             \
    X(_ZN2ge8Operator16UpdateOutputDescERKSsRKNS_10TensorDescE, "ge::Operator::UpdateOutputDesc")            \
    X(_ZN2ge8Operator17InferFuncRegisterERKSt8functionIFjRS0_EE,                                             \
      "ge::Operator::InferFuncRegister")                                                                     \
    X(_ZN2ge8Operator18SetSubgraphBuilderEPKcjRKSt8functionIFNS_5GraphEvEE,                                  \
      "ge::Operator::SetSubgraphBuilder")                                                                    \
    X(_ZN2ge8Operator20DynamicInputRegisterEPKcjS2_b, "ge::Operator::DynamicInputRegister")                  \
    X(_ZN2ge8Operator20DynamicInputRegisterEPKcjb, "ge::Operator::DynamicInputRegister")                     \
    X(_ZN2ge8Operator20RequiredAttrRegisterERKSs, "ge::Operator::RequiredAttrRegister")                      \
    X(_ZN2ge8Operator21DynamicOutputRegisterEPKcjS2_b, "ge::Operator::DynamicOutputRegister")                \
    X(_ZN2ge8Operator21DynamicOutputRegisterEPKcjb, "ge::Operator::DynamicOutputRegister")                   \
    X(_ZN2ge8Operator21OptionalInputRegisterEPKcS2_, "ge::Operator::OptionalInputRegister")                  \
    X(_ZN2ge8Operator21OptionalInputRegisterERKSs, "ge::Operator::OptionalInputRegister")                    \
    X(_ZN2ge8Operator21SubgraphCountRegisterEPKcj, "ge::Operator::SubgraphCountRegister")                    \
    X(_ZN2ge8Operator23UpdateDynamicOutputDescEPKcjRKNS_10TensorDescE,                                       \
      "ge::Operator::UpdateDynamicOutputDesc")                                                               \
    X(_ZN2ge8Operator27DynamicInputRegisterByIndexEPKcjm,                                                    \
      "ge::Operator::DynamicInputRegisterByIndex")                                                           \
    X(_ZN2ge8Operator28RequiredAttrWithTypeRegisterEPKcS2_,                                                  \
      "ge::Operator::RequiredAttrWithTypeRegister")                                                          \
    X(_ZN2ge8Operator7SetAttrEPKcRKNS_6TensorE, "ge::Operator::SetAttr")                                     \
    X(_ZN2ge8Operator7SetAttrEPKcRKNS_8DataTypeE, "ge::Operator::SetAttr")                                   \
    X(_ZN2ge8Operator7SetAttrEPKcRKSt6vectorINS_8DataTypeESaIS4_EE, "ge::Operator::SetAttr")                 \
    X(_ZN2ge8Operator7SetAttrEPKcRKSt6vectorIS3_IlSaIlEESaIS5_EE, "ge::Operator::SetAttr")                   \
    X(_ZN2ge8Operator7SetAttrEPKcRKSt6vectorIfSaIfEE, "ge::Operator::SetAttr")                               \
    X(_ZN2ge8Operator7SetAttrEPKcRKSt6vectorIiSaIiEE, "ge::Operator::SetAttr")                               \
    X(_ZN2ge8Operator7SetAttrEPKcRKSt6vectorIlSaIlEE, "ge::Operator::SetAttr")                               \
    X(_ZN2ge8Operator7SetAttrEPKcS2_, "ge::Operator::SetAttr")                                               \
    X(_ZN2ge8Operator7SetAttrEPKcb, "ge::Operator::SetAttr")                                                 \
    X(_ZN2ge8Operator7SetAttrEPKcf, "ge::Operator::SetAttr")                                                 \
    X(_ZN2ge8Operator7SetAttrEPKci, "ge::Operator::SetAttr")                                                 \
    X(_ZN2ge8Operator7SetAttrEPKcj, "ge::Operator::SetAttr")                                                 \
    X(_ZN2ge8Operator7SetAttrEPKcl, "ge::Operator::SetAttr")                                                 \
    X(_ZN2ge8Operator7SetAttrERKSsRKSt6vectorISsSaISsEE, "ge::Operator::SetAttr")                            \
    X(_ZN2ge8Operator7SetAttrERKSsRKSt6vectorIbSaIbEE, "ge::Operator::SetAttr")                              \
    X(_ZN2ge8Operator7SetAttrERKSsRKSt6vectorIfSaIfEE, "ge::Operator::SetAttr")                              \
    X(_ZN2ge8Operator7SetAttrERKSsRKSt6vectorIiSaIiEE, "ge::Operator::SetAttr")                              \
    X(_ZN2ge8Operator7SetAttrERKSsRKSt6vectorIlSaIlEE, "ge::Operator::SetAttr")                              \
    X(_ZN2ge8Operator7SetAttrERKSsS2_, "ge::Operator::SetAttr")                                              \
    X(_ZN2ge8Operator7SetAttrERKSsb, "ge::Operator::SetAttr")                                                \
    X(_ZN2ge8Operator7SetAttrERKSsf, "ge::Operator::SetAttr")                                                \
    X(_ZN2ge8Operator7SetAttrERKSsi, "ge::Operator::SetAttr")                                                \
    X(_ZN2ge8Operator7SetAttrERKSsl, "ge::Operator::SetAttr")                                                \
    X(_ZN2ge8Operator8SetInputEPKcRKS0_, "ge::Operator::SetInput")                                           \
    X(_ZN2ge8Operator8SetInputEPKcjRKS0_, "ge::Operator::SetInput")                                          \
    X(_ZN2ge8Operator8SetInputEPKcjRKS0_S2_, "ge::Operator::SetInput")                                       \
    X(_ZN2ge8Operator8SetInputERKSsRKS0_, "ge::Operator::SetInput")                                          \
    X(_ZN2ge8Operator8SetInputERKSsRKS0_S2_, "ge::Operator::SetInput")                                       \
    X(_ZN2ge8OperatorC1ERKSs, "ge::Operator::Operator")                                                      \
    X(_ZN2ge8OperatorC1ERKSsS2_, "ge::Operator::Operator")                                                   \
    X(_ZN2ge8OperatorC2EPKc, "ge::Operator::Operator")                                                       \
    X(_ZN2ge8OperatorC2EPKcS2_, "ge::Operator::Operator")                                                    \
    X(_ZN2ge8OperatorC2ERKNS_12AscendStringES3_, "ge::Operator::Operator")                                   \
    X(_ZN2ge8OperatorC2ERKSsS2_, "ge::Operator::Operator")                                                   \
    X(_ZNK2ge10TensorDesc14GetOriginShapeEv, "ge::TensorDesc::GetOriginShape")                               \
    X(_ZNK2ge11GraphBuffer7GetDataEv, "ge::GraphBuffer::GetData")                                            \
    X(_ZNK2ge11GraphBuffer7GetSizeEv, "ge::GraphBuffer::GetSize")                                            \
    X(_ZNK2ge5GNode13GetInputsSizeEv, "ge::GNode::GetInputsSize")                                            \
    X(_ZNK2ge5GNode14GetOutputsSizeEv, "ge::GNode::GetOutputsSize")                                          \
    X(_ZNK2ge5GNode17GetInControlNodesEv, "ge::GNode::GetInControlNodes")                                    \
    X(_ZNK2ge5GNode18GetOutControlNodesEv, "ge::GNode::GetOutControlNodes")                                  \
    X(_ZNK2ge5GNode27GetInDataNodesAndPortIndexsEi, "ge::GNode::GetInDataNodesAndPortIndexs")                \
    X(_ZNK2ge5GNode28GetOutDataNodesAndPortIndexsEi, "ge::GNode::GetOutDataNodesAndPortIndexs")              \
    X(_ZNK2ge5GNode7GetNameERNS_12AscendStringE, "ge::GNode::GetName")                                       \
    X(_ZNK2ge5Graph10SaveToFileERKSs, "ge::Graph::SaveToFile")                                               \
    X(_ZNK2ge5Graph13GetDirectNodeEv, "ge::Graph::GetDirectNode")                                            \
    X(_ZNK2ge5Graph7GetNameEv, "ge::Graph::GetName")                                                         \
    X(_ZNK2ge5Graph9SaveToMemERNS_11GraphBufferE, "ge::Graph::SaveToMem")                                    \
    X(_ZNK2ge5Shape6GetDimEm, "ge::Shape::GetDim")                                                           \
    X(_ZNK2ge5Shape9GetDimNumEv, "ge::Shape::GetDimNum")                                                     \
    X(_ZNK2ge6Tensor7GetSizeEv, "ge::Tensor::GetSize")                                                       \
    X(_ZNK2ge7Session27UnregisterExternalAllocatorEPKv,                                                      \
      "ge::Session::UnregisterExternalAllocator")                                                            \
    X(_ZNK2ge8Operator13GetOutputDescERKSs, "ge::Operator::GetOutputDesc")                                   \
    X(_ZNK2ge8Operator13GetOutputDescEj, "ge::Operator::GetOutputDesc")                                      \
    X(_ZNK2ge8Operator19GetDynamicOutputNumERKSs, "ge::Operator::GetDynamicOutputNum")                       \
    X(_ZNK2ge8Operator7GetAttrEPKcRNS_6TensorE, "ge::Operator::GetAttr")                                     \
    X(_ZNK2ge8Operator7GetAttrEPKcRNS_8DataTypeE, "ge::Operator::GetAttr")                                   \
    X(_ZNK2ge8Operator7GetAttrEPKcRSt6vectorINS_8DataTypeESaIS4_EE, "ge::Operator::GetAttr")                 \
    X(_ZNK2ge8Operator7GetAttrEPKcRSt6vectorIS3_IlSaIlEESaIS5_EE, "ge::Operator::GetAttr")                   \
    X(_ZNK2ge8Operator7GetAttrEPKcRSt6vectorIfSaIfEE, "ge::Operator::GetAttr")                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRSt6vectorIiSaIiEE, "ge::Operator::GetAttr")                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRSt6vectorIlSaIlEE, "ge::Operator::GetAttr")                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRb, "ge::Operator::GetAttr")                                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRf, "ge::Operator::GetAttr")                                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRi, "ge::Operator::GetAttr")                                               \
    X(_ZNK2ge8Operator7GetAttrEPKcRl, "ge::Operator::GetAttr")                                               \
    X(_ZNK2ge8Operator7GetAttrERKSsRSs, "ge::Operator::GetAttr")                                             \
    X(_ZNK2ge8Operator7GetAttrERKSsRSt6vectorISsSaISsEE, "ge::Operator::GetAttr")                            \
    X(_ZNK2ge8Operator7GetNameERNS_12AscendStringE, "ge::Operator::GetName")                                 \
    X(_ZNK2ge8Operator7GetNameEv, "ge::Operator::GetName")                                                   \
    X(_ZNK2ge8Operator9GetOpTypeERNS_12AscendStringE, "ge::Operator::GetOpType")                             \
    X(_ZNK2ge8Operator9GetOpTypeEv, "ge::Operator::GetOpType")

/* Functions that register operators at load time. They do nothing: no operator is ever created. */
#define WEIR_GE_REGISTRATION_LIST(X)                                                           \
    X(_ZN2ge22InferShapeFuncRegisterC1ERKSsRKSt8functionIFjRNS_8OperatorEEE,                   \
      "ge::InferShapeFuncRegister::InferShapeFuncRegister")                                    \
    X(_ZN2ge23OperatorCreatorRegisterC1EPKcRKSt8functionIFNS_8OperatorERKNS_12AscendStringEEE, \
      "ge::OperatorCreatorRegister::OperatorCreatorRegister")                                  \
    X(_ZN2ge23OperatorCreatorRegisterC1ERKSsRKSt8functionIFNS_8OperatorES2_EE,                 \
      "ge::OperatorCreatorRegister::OperatorCreatorRegister")
